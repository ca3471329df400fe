package jobs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"guild"
	"guild/canon"
	"guild/internal/judging/typed"
	"guild/nutshell"
	"guild/oa"
)

// The ways to compare the deliveries of several providers (docs/adr/0016-when-deliveries-agree.md).
const (
	byWhatTheyAre = ""         // byTests if functional tests passed, else byHash
	byHash        = "hash"     // the files are the same, byte for byte
	byJSON        = "json"     // as byHash, but JSON files by their canonical form
	byText        = "text"     // as byHash, but text regardless of its white space
	byNumbers     = "numbers:" // as byText, but numbers may differ by the tolerance that follows
	byTests       = "tests"    // the judge saw the same tests pass
	byType        = "oa."      // prefix of a job type: typed.Agree compares the results

	byOpinion = string(oa.JudgeModel) // not compared: the judge has a model choose one
	byMerging = string(oa.Merge)      // not compared: one result is made of all
)

// Bounds on what is parsed. Anything larger is compared byte for byte.
const (
	maxCompared = 4 << 20 // bytes of one file
	maxNumbers  = 1 << 20 // numbers of one delivery
)

// comparer tells whether two deliveries agree.
type comparer struct {
	by        string
	tolerance float64 // by numbers: the largest difference
}

// parseComparer reads the name of a way to compare.
func parseComparer(name string) (c comparer, ok bool) {
	switch name {
	case byWhatTheyAre, byHash, byJSON, byText, byTests, byOpinion, byMerging:
		return comparer{by: name}, true
	}
	if _, err := oa.ParseID(name); err == nil {
		return comparer{by: name}, true
	}
	text, ok := strings.CutPrefix(name, byNumbers)
	tolerance, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || !(tolerance >= 0) || math.IsInf(tolerance, 0) {
		return comparer{}, false
	}
	return comparer{byNumbers, tolerance}, true
}

// summary holds what is compared of a delivery. A zero hash agrees with nothing.
type summary struct {
	tests   guild.Hash
	files   guild.Hash
	numbers []float64
	result  []byte // of a typed job
}

// of returns the summary of a packed delivery and the verdict on it.
func (c comparer) of(bundle []byte, v guild.Verdict) summary {
	var e summary
	switch c.by {
	case byTests:
		e.tests = hashNames(passed(v.Tests))
		return e
	case byWhatTheyAre:
		if functional := slices.DeleteFunc(slices.Clone(v.Tests), isOther); len(passed(functional)) == len(functional) {
			e.tests = hashNames(passed(functional))
		}
	}
	if strings.HasPrefix(c.by, byType) {
		e.result = typed.Delivered(bundle)
		e.files = typed.Essence(e.result)
		return e
	}
	e.files, e.numbers = c.hashFiles(bundle)
	return e
}

// agree reports whether a delivery agrees with the first of a group that agree with each other. It is compared with the
// first only, because a chain of small differences could lead anywhere.
func (c comparer) agree(first, other summary) bool {
	if !first.tests.IsZero() && !other.tests.IsZero() {
		return first.tests == other.tests
	}
	if id, err := oa.ParseID(c.by); err == nil {
		return typed.Agree(id, first.result, other.result)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= c.tolerance }
	return !first.files.IsZero() && first.files == other.files && slices.EqualFunc(first.numbers, other.numbers, near)
}

// hash returns the part of a summary that is recorded.
func (e summary) hash() guild.Hash { return cmp.Or(e.tests, e.files) }

// isOther reports whether a test does not decide the outcome.
func isOther(t guild.Test) bool {
	return t.Layer == guild.LayerEdge || t.Layer == guild.LayerPerformance || t.Layer == guild.LayerSecurity
}

func passed(tests []guild.Test) (ids []string) {
	for _, t := range tests {
		if t.State == guild.TestPassed {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// hashNames hashes a set of names; it returns the zero hash for none.
func hashNames(names []string) guild.Hash {
	if len(names) == 0 {
		return guild.Hash{}
	}
	slices.Sort(names)
	var all []byte
	for _, name := range names {
		all = append(strconv.AppendQuote(all, name), '\n')
	}
	return guild.Sum(all)
}

// part is one file of a delivery.
type part struct {
	path    string
	form    string // in which the content was hashed: bytes, json, text or numbers
	hash    guild.Hash
	numbers []float64
}

// hashFiles hashes the delivered files, regardless of order and dates in the archive. A delivery that is not a bundle is
// hashed as it is.
func (c comparer) hashFiles(bundle []byte) (guild.Hash, []float64) {
	var parts []part
	left := maxNumbers
	_, err := nutshell.Extract(bytes.NewReader(bundle), int64(len(bundle)), nutshell.DefaultLimits(), func(e nutshell.Entry, r io.Reader) error {
		if !isDelivered(e.Path) {
			return nil
		}
		p, err := c.read(e.Path, r, left)
		left -= len(p.numbers)
		parts = append(parts, p)
		return err
	})
	if err != nil {
		return guild.Sum(bundle), nil
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.path, b.path) })
	var names []string
	var numbers []float64
	for _, p := range parts {
		names = append(names, p.path+"\x00"+p.form+"\x00"+p.hash.Hex())
		numbers = append(numbers, p.numbers...)
	}
	return hashNames(names), numbers
}

// isDelivered reports whether a file is part of the work, and not of the delivery's own description, which differs in ids
// and times each time.
func isDelivered(path string) bool {
	switch path {
	case nutshell.ManifestFile, nutshell.ResultFile, nutshell.ArtifactsDir + "/result.json":
		return false
	}
	return !strings.HasPrefix(path, "delivery/logs/")
}

// read hashes one file. A file of more than most numbers is not compared by numbers.
func (c comparer) read(path string, r io.Reader, most int) (part, error) {
	p := part{path: path, form: "bytes"}
	looks := c.by == byText || c.by == byNumbers || c.by == byJSON && strings.HasSuffix(strings.ToLower(path), ".json")
	var head []byte
	if looks {
		var err error
		if head, err = io.ReadAll(io.LimitReader(r, maxCompared+1)); err != nil {
			return part{}, err
		}
		if len(head) <= maxCompared && c.look(&p, head, most) {
			return p, nil
		}
	}
	whole := sha256.New()
	whole.Write(head)
	if _, err := io.Copy(whole, r); err != nil {
		return part{}, err
	}
	p.hash = guild.Hash(whole.Sum(nil))
	return p, nil
}

// look hashes the meaning of a file, and reports false if the comparer can only compare its bytes.
func (c comparer) look(p *part, content []byte, most int) bool {
	if c.by == byJSON {
		hash, err := canon.Hash(content)
		if err == nil {
			p.form, p.hash = "json", hash
		}
		return err == nil
	}
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		return false
	}
	even := bytes.Join(bytes.Fields(content), []byte(" "))
	p.form = "text"
	if c.by == byNumbers {
		rest, numbers, err := split(even, most)
		if err != nil {
			p.form = "bytes"
			return false
		}
		p.form, p.numbers, even = "numbers", numbers, rest
	}
	p.hash = guild.Sum(even)
	return true
}

var errTooMany = errors.New("too many numbers")

// split takes the numbers out of a text, and puts a NUL, which the text must not have, in the place of each. Dates,
// versions and names with digits are text.
func split(text []byte, most int) (rest []byte, numbers []float64, err error) {
	for len(text) > 0 {
		n := bytes.IndexFunc(text, func(r rune) bool { return !inWord(r) })
		if n < 0 {
			n = len(text)
		}
		if x, ok := number(text[:n]); ok {
			if len(numbers) == most {
				return nil, nil, errTooMany
			}
			rest, numbers = append(rest, 0), append(numbers, x)
		} else {
			rest = append(rest, text[:n]...)
		}
		text = text[n:]
		if n = bytes.IndexFunc(text, inWord); n < 0 {
			n = len(text)
		}
		rest, text = append(rest, text[:n]...), text[n:]
	}
	return rest, numbers, nil
}

// inWord reports whether a character belongs to a word, which may be a number.
func inWord(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("_.+-", r)
}

// number reads a decimal number, with an exponent or without.
func number(word []byte) (float64, bool) {
	const longest = 64
	if len(word) == 0 || len(word) > longest || !bytes.ContainsAny(word, "0123456789") {
		return 0, false
	}
	if i := bytes.IndexFunc(word, func(r rune) bool { return !strings.ContainsRune("0123456789.+-eE", r) }); i >= 0 {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(word), 64)
	return x, err == nil
}
