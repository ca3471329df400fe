package parts

import (
	"cmp"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
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
	all  []*delivered
	docs []object.Members
	err  error
}

// mergeResults makes the result of the whole.
func mergeResults(all []*delivered, files map[string]source, o MergeOptions, m *Merged) ([]byte, error) {
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
	add("tags", r.tags())
	add("extensions", r.extensions())
	r.rest(&merged, r.docs)
	if r.err != nil {
		return nil, r.err
	}
	return document(merged)
}

// moment formats a time as the specification does.
func moment(t time.Time) nutshell.Timestamp { return nutshell.Timestamp(t.UTC().Format(time.RFC3339)) }

// section returns one member of every result as an object, nil where it is not one.
func (r *merger) section(name string) []object.Members {
	all := make([]object.Members, len(r.docs))
	for i, doc := range r.docs {
		if raw := doc.Value(name); raw.Kind() == '{' {
			o, err := readObject(raw)
			r.err = cmp.Or(r.err, err)
			all[i] = o
		}
	}
	return all
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

// deliverer lists the names and models, and adds up sessions and tokens.
func (r *merger) deliverer() object.Members {
	var names, models []string
	var sessions, tokens int64
	for _, d := range r.all {
		who := d.result.Deliverer
		names, models = append(names, who.Name), append(models, who.Model)
		sessions, tokens = sum(sessions, who.SessionsUsed), sum(tokens, who.TotalTokens)
	}
	var o object.Members
	if name := join(names); name != "" {
		r.add(&o, "name", name)
	}
	if model := join(models); model != "" {
		r.add(&o, "model", model)
	}
	if sessions != 0 {
		r.add(&o, "sessions_used", sessions)
	}
	if tokens != 0 {
		r.add(&o, "total_tokens", tokens)
	}
	r.rest(&o, r.section("deliverer"))
	return o
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

// sum adds without overflow. Negative numbers, which a deliverer may claim, count as zero.
func sum(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + max(b, 0)
}

// tags puts the lists of labels one after the other, each label once.
func (r *merger) tags() object.Members {
	sections := r.section("tags")
	var o object.Members
	for _, name := range []string{"skills_used", "tools_used"} {
		if merged, ok := concat(sections, name, ""); ok {
			r.add(&o, name, merged)
		}
	}
	r.rest(&o, sections)
	return o
}

// artifacts lists the artifacts that the results name, and those that are only in the tree.
func (r *merger) artifacts(files map[string]source) object.Members {
	sections := r.section("artifacts")
	created, _ := concat(sections, "files_created", "path")
	modified, hasModified := concat(sections, "files_modified", "path")
	named := make(map[string]bool)
	for _, d := range r.all {
		for _, a := range slices.Concat(d.result.Artifacts.FilesCreated, d.result.Artifacts.FilesModified) {
			named[path.Clean(a.Path)] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if isBelow(p, nutshell.ArtifactsDir) && !named[p] {
			raw, err := json.Marshal(map[string]string{"path": p})
			r.err = cmp.Or(r.err, err)
			created = append(created, raw)
		}
	}
	var o object.Members
	r.add(&o, "files_created", created)
	if hasModified {
		r.add(&o, "files_modified", modified)
	}
	r.rest(&o, sections)
	return o
}

// each is the key of lists whose elements all stay.
const each = "*"

// concat concatenates a list of all sections. Elements with the same key (idOf) come once, unless key is each. ok is
// false if no section has the list.
func concat(sections []object.Members, name, key string) (merged []jsontext.Value, ok bool) {
	merged = []jsontext.Value{}
	seen := make(map[string]bool)
	for _, s := range sections {
		if s.Value(name).Kind() != '[' {
			continue
		}
		ok = true
		for _, e := range object.Elements(s.Value(name)) {
			if id := idOf(e, key); key == each || !seen[id] {
				seen[id] = true
				merged = append(merged, e)
			}
		}
	}
	return merged, ok
}

// idOf returns the member key of an element, or its text if key is empty or it has no such member.
func idOf(e jsontext.Value, key string) string {
	if key != "" && e.Kind() == '{' {
		if o, err := readObject(e); err == nil && o.Value(key) != nil {
			return string(o.Value(key))
		}
	}
	return string(e)
}

func (r *merger) acceptance() object.Members {
	var passed, failed, skipped int64
	for _, d := range r.all {
		a := d.result.AcceptanceResults
		passed, failed, skipped = sum(passed, a.TestsPassed), sum(failed, a.TestsFailed), sum(skipped, a.TestsSkipped)
	}
	var o object.Members
	r.add(&o, "tests_passed", passed)
	r.add(&o, "tests_failed", failed)
	r.add(&o, "tests_skipped", skipped)
	sections := r.section("acceptance_results")
	if merged, ok := concat(sections, "checklist", each); ok {
		r.add(&o, "checklist", merged)
	}
	r.rest(&o, sections)
	return o
}

// log merges the execution logs. There are several full logs; extensions names them.
func (r *merger) log() object.Members {
	sections := r.section("execution_log")
	var o object.Members
	if len(r.all) > 1 {
		r.add(&o, "strategy_used", "parallel")
		for i := range sections {
			sections[i] = slices.DeleteFunc(sections[i], func(m object.Member) bool { return m.Name == "full_log" })
		}
	}
	for _, name := range []string{"checkpoints", "decisions", "issues_encountered", "credentials_used"} {
		if merged, ok := concat(sections, name, each); ok {
			r.add(&o, name, merged)
		}
	}
	r.rest(&o, sections)
	return o
}

// made is one part in the extension of a merged delivery.
type made struct {
	Part      int    `json:"part,omitzero"`
	RequestID string `json:"request_id"`
	ID        string `json:"id,omitempty"`
	Status    string `json:"status"`
	FullLog   string `json:"full_log,omitempty"`
}

// extensions merges the extensions of all parts, and adds the list of parts.
func (r *merger) extensions() object.Members {
	var of []made
	for _, d := range r.all {
		one := made{Part: d.number.Part, RequestID: d.request(), ID: d.result.ID, Status: d.result.Status}
		if l := d.result.ExecutionLog.FullLog; l != "" {
			one.FullLog = d.mergedPath(l, len(r.all))
		}
		of = append(of, one)
	}
	var o object.Members
	raw, err := json.Marshal(of)
	r.err = cmp.Or(r.err, err)
	r.add(&o, Extension, object.Members{}.With("parts", raw))
	r.rest(&o, r.section("extensions"))
	return o
}
