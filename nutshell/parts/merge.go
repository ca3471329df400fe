package parts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"guild/nutshell"
	"guild/nutshell/object"
)

// Input is the delivery of one part: a delivery bundle, or the directory of the part with a delivery in it.
type Input struct {
	Name string // for errors
	Tree fs.FS
}

// Which file is used when two parts have different ones of the same name.
const (
	PreferNone  = ""
	PreferFirst = "first"
	PreferLast  = "last"
)

// MergeOptions are the options of Merge.
type MergeOptions struct {
	ID     string    // of the delivery, "nut-…"
	Now    time.Time // when it is merged
	Parent string    // the id of the whole; if empty, the parts must name it
	Prefer string    // one of the Prefer constants
}

// ConflictError is a file that two parts delivered with different content, or two files that cannot be in one bundle.
type ConflictError struct{ Path, Other, A, B string }

func (e *ConflictError) Error() string {
	if e.Path != e.Other {
		return fmt.Sprintf("%.200q of %s and %.200q of %s cannot stand beside one another", e.Path, e.A, e.Other, e.B)
	}
	return fmt.Sprintf("%.200q is not the same in %s and %s", e.Path, e.A, e.B)
}

// Errors about the parts as a whole.
var (
	ErrNoResult = errors.New("there is no " + nutshell.ResultFile)
	ErrNoParent = errors.New("the deliveries do not say which task they are parts of")
	ErrParents  = errors.New("the deliveries are for parts of different tasks")
	ErrTwice    = errors.New("two of the deliveries are for the same part")
)

// Merged is the delivery of the whole task.
type Merged struct {
	RequestID string
	Result    *nutshell.Result
	Parts     []Number // in their order; zero for one that does not say
	Missing   []int    // the parts that are not there, if it is known how many there are
	Replaced  []string // the files that were in conflict, where one was preferred
	Tree      fs.FS    // the bundle; it reads from the trees that were merged
}

// Merge merges the deliveries of the parts of a task, in the order of the parts. The artifacts keep their
// paths; the logs of each part get a folder of their own. The status of the result is the worst of all, at best Partial
// if a part is missing. Numbers are added up, lists concatenated, and percentages weighted by the number of checklist
// items of each part. Members that only one result has are kept.
//
// Its errors are ErrNoResult, ErrNoParent, ErrParents, ErrTwice, *ConflictError, those of nutshell.ParseManifest and
// nutshell.ParseResult, and those of reading.
func Merge(ctx context.Context, inputs []Input, o MergeOptions) (*Merged, error) {
	if len(inputs) == 0 {
		return nil, errors.New("there is nothing to merge")
	}
	all := make([]*partDelivery, len(inputs))
	for i, in := range inputs {
		var err error
		if all[i], err = readDelivery(ctx, in); err != nil {
			return nil, fmt.Errorf("%s: %w", in.Name, err)
		}
	}
	slices.SortStableFunc(all, func(a, b *partDelivery) int { return cmp.Compare(a.place(), b.place()) })
	merged := &Merged{RequestID: o.Parent}
	if err := merged.checkParts(all); err != nil {
		return nil, err
	}
	files, err := merged.files(ctx, all, o.Prefer)
	if err != nil {
		return nil, err
	}
	result, err := mergeResults(all, files, o, merged)
	if err != nil {
		return nil, err
	}
	if merged.Result, err = nutshell.ParseResult(result); err != nil {
		return nil, err
	}
	manifest, err := deliveryManifest(all, o, merged)
	if err != nil {
		return nil, err
	}
	files[nutshell.ResultFile] = source{text: result}
	files[nutshell.ManifestFile] = source{text: manifest}
	merged.Tree = newView(files)
	return merged, nil
}

// partDelivery is the delivery of one part.
type partDelivery struct {
	Input
	manifest *nutshell.Manifest
	result   *nutshell.Result
	number   Number
	files    []string // those that go into the merged delivery
	label    string   // of its folder of logs: "part-2"
}

func readDelivery(ctx context.Context, in Input) (*partDelivery, error) {
	m, err := nutshell.ReadManifest(in.Tree)
	if err != nil {
		return nil, err
	}
	d := &partDelivery{Input: in, manifest: m}
	raw, err := nutshell.ReadDocument(in.Tree, nutshell.ResultFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoResult
	}
	if err != nil {
		return nil, err
	}
	if d.result, err = nutshell.ParseResult(raw); err != nil {
		return nil, err
	}
	d.number = numberOf(d.manifest)
	d.files, err = nutshell.RegularFiles(ctx, in.Tree, d.excludes)
	return d, err
}

// excludes reports whether a file is not part of the merged delivery: results, credentials, hidden tests, and in the
// directory of a part all files outside of delivery.
func (d *partDelivery) excludes(p string, isDir bool) bool {
	delivery := path.Dir(nutshell.ResultFile)
	isRequest := d.manifest.BundleType() != nutshell.TypeDelivery
	return p == nutshell.HiddenDir || p == nutshell.ResultFile || isBelow(p, "credentials") || p == path.Clean(d.manifest.Credentials().Vault) ||
		isRequest && !isBelow(p, delivery) && !(isDir && p == delivery)
}

// place returns the number of a part for sorting; parts without a number come last.
func (d *partDelivery) place() int { return cmp.Or(d.number.Part, MaxParts+1) }

// request returns the id of the part that was delivered.
func (d *partDelivery) request() string {
	if d.manifest.BundleType() != nutshell.TypeDelivery {
		return d.manifest.ID()
	}
	return cmp.Or(d.result.RequestID, d.manifest.RequestID())
}

// checkParts sets the id of the whole, the parts and the missing parts.
func (m *Merged) checkParts(all []*partDelivery) error {
	of, seen := 0, make(map[int]bool)
	for i, d := range all {
		parent := d.manifest.ParentID()
		if m.RequestID == "" {
			m.RequestID = parent
		}
		if parent != "" && parent != m.RequestID || d.number.Of != 0 && of != 0 && d.number.Of != of {
			return ErrParents
		}
		if d.number.Part != 0 && seen[d.number.Part] {
			return fmt.Errorf("%w: %s", ErrTwice, d.number)
		}
		of, seen[d.number.Part] = max(of, d.number.Of), true
		d.label = "part-" + strconv.Itoa(cmp.Or(d.number.Part, i+1))
		m.Parts = append(m.Parts, d.number)
	}
	if m.RequestID == "" {
		return ErrNoParent
	}
	for part := 1; part <= of && !seen[0]; part++ {
		if !seen[part] {
			m.Missing = append(m.Missing, part)
		}
	}
	return nil
}

// files puts the files of all parts into one tree.
func (m *Merged) files(ctx context.Context, all []*partDelivery, prefer string) (map[string]source, error) {
	if !slices.Contains([]string{PreferNone, PreferFirst, PreferLast}, prefer) {
		return nil, fmt.Errorf("prefer %.40q is neither %s nor %s", prefer, PreferFirst, PreferLast)
	}
	files, from := make(map[string]source), make(map[string]*partDelivery)
	for _, d := range all {
		for _, name := range d.files {
			as := d.mergedPath(name, len(all))
			if other, twice := from[as]; twice {
				was, err := files[as].hash(ctx)
				if err != nil {
					return nil, err
				}
				is, err := source{fsys: d.Tree, name: name}.hash(ctx)
				switch {
				case err != nil:
					return nil, err
				case was == is:
					continue
				case prefer == PreferNone:
					return nil, &ConflictError{Path: as, Other: as, A: other.Name, B: d.Name}
				}
				m.Replaced = append(m.Replaced, as)
				if prefer == PreferFirst {
					continue
				}
			}
			files[as], from[as] = source{fsys: d.Tree, name: name}, d
		}
	}
	m.Replaced = slices.Compact(slices.Sorted(slices.Values(m.Replaced)))
	if a, b := clash(slices.Sorted(maps.Keys(files))); a != "" {
		return nil, &ConflictError{Path: a, Other: b, A: from[a].Name, B: from[b].Name}
	}
	return files, nil
}

// logs is the folder of the execution logs.
var logs = path.Dir(nutshell.LogFile)

// mergedPath returns the path of a file in the merged delivery. The logs of all parts have the same names.
func (d *partDelivery) mergedPath(name string, parts int) string {
	if inside, ok := strings.CutPrefix(name, logs+"/"); ok && parts > 1 {
		return path.Join(logs, d.label, inside)
	}
	return name
}

func (s source) hash(ctx context.Context) (sum [sha256.Size]byte, err error) {
	if err := ctx.Err(); err != nil {
		return sum, err
	}
	f, err := s.open(s.name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, fmt.Errorf("%.200q: %w", s.name, err)
	}
	h.Sum(sum[:0])
	return sum, nil
}

// deliveryManifest makes the manifest of the merged delivery.
func deliveryManifest(all []*partDelivery, opt MergeOptions, m *Merged) ([]byte, error) {
	title := titleNumber.ReplaceAllString(all[0].manifest.Task().Title, "")
	var o object.Members
	type publisher struct {
		Name string `json:"name"`
	}
	for _, one := range []struct {
		name  string
		value any
	}{
		{"nutshell_version", nutshell.Version}, {"bundle_type", nutshell.TypeDelivery}, {"request_id", m.RequestID}, {"id", opt.ID},
		{"created_at", moment(opt.Now)}, {"task", map[string]string{"title": title}}, {"publisher", publisher{m.Result.Deliverer.Name}},
	} {
		if err := add(&o, one.name, one.value); err != nil {
			return nil, err
		}
	}
	text, err := document(o)
	if err != nil {
		return nil, err
	}
	manifest, err := nutshell.ParseManifest(text)
	if err != nil {
		return nil, err
	}
	_, err = manifest.Validate()
	return text, err
}
