package parts

import (
	"cmp"
	"maps"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell"
	"guild/nutshell/object"
)

// worst lists the statuses, the worst first.
var worst = []string{nutshell.Failed, nutshell.Blocked, nutshell.Partial, nutshell.Completed}

// merger merges results member by member. It keeps the first error.
type merger struct {
	all  []*partDelivery
	docs []object.Members
	err  error
}

// mergeResults makes the result of the whole.
func mergeResults(all []*partDelivery, files map[string]source, o MergeOptions, m *Merged) ([]byte, error) {
	r := &merger{all: all}
	for _, d := range all {
		doc, err := readObject(d.result.Raw)
		if err != nil {
			return nil, err
		}
		r.docs = append(r.docs, doc)
	}
	var merged object.Members
	add := func(name string, value any) { r.add(&merged, name, value) }
	add("nutshell_version", nutshell.Version)
	add("bundle_type", nutshell.TypeDelivery)
	add("request_id", m.RequestID)
	add("id", o.ID)
	add("completed_at", cmp.Or(r.latest(), moment(o.Now)))
	add("deliverer", r.deliverer())
	add("status", r.status(len(m.Missing) > 0))
	add("completion_percentage", r.percentage(m))
	add("summary", r.summary())
	add("artifacts", r.artifacts(files))
	add("acceptance_results", r.acceptance())
	add("execution_log", r.log())
	add("tags", r.section("tags", nil))
	add("extensions", r.extensions())
	r.rest(&merged, r.docs)
	if r.err != nil {
		return nil, r.err
	}
	return document(merged)
}

// moment formats a time as the specification does.
func moment(t time.Time) nutshell.Timestamp { return nutshell.Timestamp(t.UTC().Format(time.RFC3339)) }

// section merges one member of the results, an object, by the table of the result: whole numbers are added up and lists
// concatenated; of anything else, also of unknown members, the first result that has it decides. A text, and an element
// with a path, comes once in a list. The members in set are as they are.
func (r *merger) section(name string, set object.Members) object.Members {
	merged := slices.Clone(set)
	var sections []object.Members
	for _, doc := range r.docs {
		if raw := doc.Value(name); raw.Kind() == '{' {
			o, err := readObject(raw)
			r.err = cmp.Or(r.err, err)
			sections = append(sections, o)
		}
	}
	for _, f := range result().At(name).Members {
		switch f.Kind {
		case nutshell.KindWhole:
			if total, ok := sum(sections, f.Name); ok {
				r.add(&merged, f.Name, total)
			}
		case nutshell.KindList, nutshell.KindTexts:
			if list, ok := concat(sections, f); ok {
				r.add(&merged, f.Name, list)
			}
		}
	}
	r.rest(&merged, sections)
	return merged
}

// result is the table of a result.
var result = sync.OnceValue(func() *nutshell.Field { return nutshell.Describe(reflect.TypeFor[nutshell.Result]()) })

// sum adds up a number of all sections, without overflow. Negative ones, which a deliverer may claim, count as zero. ok is
// false if no section has it.
func sum(sections []object.Members, name string) (total int64, ok bool) {
	for _, s := range sections {
		var n int64
		if json.Unmarshal(s.Value(name), &n) == nil {
			total, ok = total+min(max(n, 0), math.MaxInt64-total), true
		}
	}
	return total, ok
}

// concat concatenates a list of all sections. ok is false if no section has it.
func concat(sections []object.Members, f *nutshell.Field) (merged []jsontext.Value, ok bool) {
	merged = []jsontext.Value{}
	seen := make(map[string]bool)
	hasPath := f.Each.At("path") != nil
	for _, s := range sections {
		if s.Value(f.Name).Kind() != '[' {
			continue
		}
		ok = true
		for _, e := range object.Elements(s.Value(f.Name)) {
			id := string(e)
			if o, err := readObject(e); hasPath && err == nil && o.Value("path") != nil {
				id = string(o.Value("path"))
			}
			if once := hasPath || f.Kind == nutshell.KindTexts; !once || !seen[id] {
				seen[id] = true
				merged = append(merged, e)
			}
		}
	}
	return merged, ok
}

// latest returns when the last part was completed.
func (r *merger) latest() nutshell.Timestamp {
	var latest nutshell.Timestamp
	var at time.Time
	for _, d := range r.all {
		if t, err := d.result.CompletedAt.Time(); err == nil && (latest == "" || t.After(at)) {
			latest, at = d.result.CompletedAt, t
		}
	}
	return latest
}

// status returns the worst status.
func (r *merger) status(missing bool) string {
	all := map[string]bool{nutshell.Partial: missing, nutshell.Completed: true}
	for _, d := range r.all {
		all[d.result.Status] = true
	}
	return worst[slices.IndexFunc(worst, func(s string) bool { return all[s] })]
}

// percentage returns the average of the parts, weighted by the number of their checklist items. A completed part without
// a percentage counts as 100. A missing part counts as 0 with the average weight.
func (r *merger) percentage(m *Merged) float64 {
	done, weights := 0.0, 0.0
	for i, d := range r.all {
		weight := float64(max(1, len(d.result.AcceptanceResults.Checklist)))
		stated := d.result.CompletionPercentage
		if r.docs[i].Value("completion_percentage") == nil && d.result.Status == nutshell.Completed {
			stated = 100
		}
		done += weight * min(max(stated, 0), 100)
		weights += weight
	}
	weights += weights / float64(len(r.all)) * float64(len(m.Missing))
	return math.Round(done/weights*100) / 100
}

// summary joins the summaries, one a line.
func (r *merger) summary() string {
	var lines []string
	for _, d := range r.all {
		if d.result.Summary != "" {
			lines = append(lines, d.label+": "+d.result.Summary)
		}
	}
	return strings.Join(lines, "\n")
}

// deliverer lists the names and models.
func (r *merger) deliverer() object.Members {
	var names, models []string
	for _, d := range r.all {
		names, models = append(names, d.result.Deliverer.Name), append(models, d.result.Deliverer.Model)
	}
	return r.section("deliverer", object.Members{}.WithText("name", join(names)).WithText("model", join(models)))
}

func (r *merger) add(o *object.Members, name string, value any) {
	if r.err == nil {
		r.err = add(o, name, value)
	}
}

// rest adds the members of sections that o lacks. Of several with the same name it takes the first.
func (r *merger) rest(o *object.Members, sections []object.Members) {
	there := make(map[string]bool)
	for _, m := range *o {
		there[m.Name] = true
	}
	for _, s := range sections {
		for _, m := range s {
			if !there[m.Name] {
				there[m.Name] = true
				*o = append(*o, m)
			}
		}
	}
}

// join lists the distinct texts.
func join(all []string) string {
	var unique []string
	for _, s := range all {
		if s != "" && !slices.Contains(unique, s) {
			unique = append(unique, s)
		}
	}
	return strings.Join(unique, ", ")
}

// artifacts lists the artifacts that the results name, and those that are only in the tree.
func (r *merger) artifacts(files map[string]source) object.Members {
	o := r.section("artifacts", nil)
	named := make(map[string]bool)
	for _, d := range r.all {
		for _, a := range slices.Concat(d.result.Artifacts.FilesCreated, d.result.Artifacts.FilesModified) {
			named[path.Clean(a.Path)] = true
		}
	}
	created := append([]jsontext.Value{}, object.Elements(o.Value("files_created"))...)
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if isBelow(p, nutshell.ArtifactsDir) && !named[p] {
			created = append(created, object.Members{}.WithText("path", p).Text())
		}
	}
	raw, err := encode(created)
	r.err = cmp.Or(r.err, err)
	return o.With("files_created", raw)
}

// acceptance adds up the tests. A merged delivery always says how many there are.
func (r *merger) acceptance() object.Members {
	o := r.section("acceptance_results", nil)
	for _, name := range []string{"tests_passed", "tests_failed", "tests_skipped"} {
		r.add(&o, name, 0)
	}
	return o
}

// log merges the execution logs. There are several full logs; extensions names them.
func (r *merger) log() object.Members {
	if len(r.all) == 1 {
		return r.section("execution_log", nil)
	}
	return r.section("execution_log", object.Members{}.WithText("strategy_used", "parallel")).With("full_log", nil)
}

// mergedPart is one part in the extension of a merged delivery.
type mergedPart struct {
	Part      int    `json:"part,omitzero"`
	RequestID string `json:"request_id"`
	ID        string `json:"id,omitempty"`
	Status    string `json:"status"`
	FullLog   string `json:"full_log,omitempty"`
}

// extensions merges the extensions of all parts, and adds the list of parts.
func (r *merger) extensions() object.Members {
	var of []mergedPart
	for _, d := range r.all {
		one := mergedPart{Part: d.number.Part, RequestID: d.request(), ID: d.result.ID, Status: d.result.Status}
		if l := d.result.ExecutionLog.FullLog; l != "" {
			one.FullLog = d.mergedPath(l, len(r.all))
		}
		of = append(of, one)
	}
	var o object.Members
	raw, err := json.Marshal(of)
	r.err = cmp.Or(r.err, err)
	r.add(&o, Extension, object.Members{}.With("parts", raw))
	return r.section("extensions", o)
}
