package parts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"guild/nutshell"
	"guild/nutshell/parts"
)

const head = `"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-whole","task":{"title":"T"}`

var now = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)

// tree is a bundle with these members beside the required ones.
func tree(members string, files map[string]string) fstest.MapFS {
	if members != "" {
		members = "," + members
	}
	fsys := fstest.MapFS{nutshell.ManifestFile: {Data: []byte("{" + head + members + "}"), Mode: 0o644}}
	for p, content := range files {
		fsys[p] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	return fsys
}

func manifest(t testing.TB, fsys fs.FS) *nutshell.Manifest {
	t.Helper()
	m, err := nutshell.ParseManifest([]byte(read(t, fsys, nutshell.ManifestFile)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func read(t testing.TB, fsys fs.FS, name string) string {
	t.Helper()
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func paths(t testing.TB, fsys fs.FS) (all []string) {
	t.Helper()
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ids returns "nut-1", "nut-2" and so on.
func ids() func() (string, error) {
	n := 0
	return func() (string, error) { n++; return fmt.Sprint("nut-", n), nil }
}

func split(t testing.TB, fsys fs.FS, n int, o parts.SplitOptions) []parts.Part {
	t.Helper()
	all, err := parts.Split(context.Background(), manifest(t, fsys), fsys, n, o, ids())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// task has everything that can be dealt out.
func task() fstest.MapFS {
	return tree(`"created_at":"2026-03-14T10:00:00Z","x":1.50,"context":{"requirements":"context/r.md"},
		"apis":{"credential_ref":"credentials/vault.enc.json"},"credentials":{"vault":"credentials/vault.enc.json","scopes":[{"name":"db"}]},
		"acceptance":{"criteria_file":"tests/criteria.json","test_scripts":["tests/a.sh","tests/all.sh"],"checklist":["one","two","three"],"hidden_tests":[]},
		"files":{"tree":[{"path":"files/main.go","role":"scaffold","x":2.0},{"path":"tests/a.sh","role":"test"},{"path":"tests/criteria.json"}]},
		"compression":{"algorithm":"gzip"},"extensions":{"clawnet":{"peer_id":"p","reward":{"amount":500},"task_id":"t"},"other":{"y":3.00}}`, map[string]string{
		"context/r.md": "r", "files/main.go": "package main", "tests/a.sh": "a", "tests/b.sh": "b", "tests/all.sh": "all", "tests/data.txt": "d",
		"tests/hidden/h.sh": "h", "credentials/vault.enc.json": "{}",
		"tests/criteria.json": `{"criteria_version":"0.2.0","z":1.0,"criteria":[{"id":"A","script":"tests/a.sh","n":1.50},{"id":"B","script":"tests/b.sh"},{"id":"C","script":"tests/a.sh"},{"id":"D"}]}`,
	})
}

func TestSplitTask(t *testing.T) {
	all := split(t, task(), 3, parts.SplitOptions{})
	shared := []string{"context/r.md", "files/main.go", "nutshell.json", "tests/criteria.json", "tests/data.txt"}
	for i, want := range []struct{ criteria, checklist, scripts, files string }{
		{"A D", "three", "tests/a.sh", "tests/a.sh"},
		{"B", "one", "tests/all.sh", "tests/all.sh tests/b.sh"},
		{"C", "two", "tests/a.sh", "tests/a.sh"},
	} {
		p := all[i]
		m := manifest(t, p.Tree)
		criteria, err := nutshell.ParseCriteria([]byte(read(t, p.Tree, "tests/criteria.json")))
		if err != nil {
			t.Fatal(err)
		}
		var named []string
		for _, c := range criteria.Criteria {
			named = append(named, c.ID)
		}
		a := m.Acceptance()
		if strings.Join(named, " ") != want.criteria || strings.Join(p.Criteria, " ") != want.criteria || strings.Join(a.Checklist, " ") != want.checklist || strings.Join(a.TestScripts, " ") != want.scripts {
			t.Errorf("part %d: criteria %q, checklist %q, scripts %q", i+1, named, a.Checklist, a.TestScripts)
		}
		files := append(slices.Clone(shared), strings.Fields(want.files)...)
		if got := paths(t, p.Tree); !slices.Equal(got, slices.Sorted(slices.Values(files))) {
			t.Errorf("part %d has %q", i+1, got)
		}
		if err := fstest.TestFS(p.Tree, files...); err != nil {
			t.Errorf("part %d: %v", i+1, err)
		}
	}
}

func TestPartManifest(t *testing.T) {
	p := split(t, task(), 2, parts.SplitOptions{})[1]
	m := manifest(t, p.Tree)
	if m.ID() != "nut-2" || m.ParentID() != "nut-whole" || m.Task().Title != "T (part 2 of 2)" || p.Number != (parts.Number{Part: 2, Of: 2}) {
		t.Errorf("%s of %s: %q", m.ID(), m.ParentID(), m.Task().Title)
	}
	text := string(m.Bytes())
	for _, kept := range []string{`"x":1.50`, `"y":3.00`, `"peer_id":"p"`, `{"path":"files/main.go","role":"scaffold","x":2.0}`, `"scopes":[{"name":"db"}]`, `"split":{"part":2,"of":2}`} {
		if !strings.Contains(strings.Join(strings.Fields(text), ""), strings.ReplaceAll(kept, " ", "")) {
			t.Errorf("%s is gone from %s", kept, text)
		}
	}
	for _, gone := range []string{"reward", "task_id", "vault.enc", "hidden_tests", `"compression"`, "tests/criteria.json\"}"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is still in %s", gone, text)
		}
	}
	if c := read(t, split(t, task(), 2, parts.SplitOptions{})[0].Tree, "tests/criteria.json"); !strings.Contains(c, `"n": 1.50`) || !strings.Contains(c, `"z": 1.0`) {
		t.Errorf("criteria lost something: %s", c)
	}
	with := split(t, task(), 2, parts.SplitOptions{WithVault: true})[0]
	if manifest(t, with.Tree).Credentials().Vault == "" || read(t, with.Tree, "credentials/vault.enc.json") != "{}" {
		t.Error("the vault is gone, although it was asked for")
	}
}

func TestTooManyParts(t *testing.T) {
	for _, c := range []struct {
		members string
		n       int
		have    int
	}{{"", 2, 0}, {`"acceptance":{"checklist":["a","b"]}`, 3, 2}} {
		_, err := parts.Split(context.Background(), manifest(t, tree(c.members, nil)), tree(c.members, nil), c.n, parts.SplitOptions{}, ids())
		if e, ok := errors.AsType[*parts.TooFewError](err); !ok || e.Have != c.have {
			t.Errorf("%s: %v", c.members, err)
		}
	}
	for _, n := range []int{-1, 0, 1, 101} {
		if _, err := parts.Split(context.Background(), manifest(t, task()), task(), n, parts.SplitOptions{}, ids()); err == nil {
			t.Errorf("split into %d", n)
		}
	}
}

func TestSplittingLosesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		files := map[string]string{"context/r.md": "r", "files/a": "a"}
		var criteria []map[string]string
		for i := range rapid.IntRange(0, 8).Draw(r, "criteria") {
			c := map[string]string{"id": fmt.Sprint("C", i)}
			if script := rapid.SampledFrom([]string{"", "tests/1.sh", "tests/2.sh", "tests/gone.sh"}).Draw(r, "script"); script != "" {
				c["script"] = script
			}
			criteria = append(criteria, c)
		}
		for _, p := range []string{"tests/1.sh", "tests/2.sh", "tests/3.sh"} {
			files[p] = p
		}
		files["tests/criteria.json"] = marshal(t, map[string]any{"criteria": criteria})
		checklist := rapid.SliceOfN(rapid.SampledFrom([]string{"one", "two", "three"}), 0, 8).Draw(r, "checklist")
		scripts := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"tests/1.sh", "tests/2.sh", "tests/3.sh"}), 0, 3, rapid.ID).Draw(r, "scripts")
		whole := tree(`"acceptance":`+marshal(t, map[string]any{"criteria_file": "tests/criteria.json", "checklist": checklist, "test_scripts": scripts}), files)
		n := rapid.IntRange(2, 5).Draw(r, "n")
		all, err := parts.Split(context.Background(), manifest(t, whole), whole, n, parts.SplitOptions{}, ids())
		if _, few := errors.AsType[*parts.TooFewError](err); few {
			return
		}
		if err != nil {
			r.Fatal(err)
		}
		var gotCriteria, gotItems, gotScripts []string
		there := map[string]bool{}
		for _, p := range all {
			a := manifest(t, p.Tree).Acceptance()
			if len(p.Criteria)+len(a.Checklist)+len(a.TestScripts) == 0 {
				r.Errorf("%s has nothing to do", p.Number)
			}
			gotCriteria, gotItems, gotScripts = append(gotCriteria, p.Criteria...), append(gotItems, a.Checklist...), append(gotScripts, a.TestScripts...)
			for _, f := range paths(t, p.Tree) {
				there[f] = true
			}
		}
		var wantCriteria []string
		for _, c := range criteria {
			wantCriteria = append(wantCriteria, c["id"])
		}
		if !same(gotCriteria, wantCriteria) || !same(gotItems, checklist) || !same(slices.Compact(slices.Sorted(slices.Values(gotScripts))), scripts) {
			r.Errorf("criteria %q, checklist %q, scripts %q", gotCriteria, gotItems, gotScripts)
		}
		used := map[string]bool{"tests/criteria.json": len(criteria) > 0, "nutshell.json": true}
		for f := range files {
			if f != "tests/criteria.json" {
				used[f] = true
			}
		}
		for f, want := range used {
			if there[f] != want {
				r.Errorf("%s: there %v, want %v", f, there[f], want)
			}
		}
	})
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// deliver makes the delivery for a part: a checklist with everything that the part has.
func deliver(t testing.TB, p parts.Part, artifacts map[string]string, status string) parts.Input {
	t.Helper()
	type item struct {
		Item   string `json:"item"`
		Status string `json:"status"`
	}
	var list []item
	for _, text := range slices.Concat(p.Criteria, p.Checklist) {
		list = append(list, item{text, "passed"})
	}
	fsys := fstest.MapFS{}
	for name, content := range artifacts {
		fsys[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	result := marshal(t, map[string]any{"status": status, "acceptance_results": map[string]any{"tests_passed": len(list), "tests_failed": 1, "checklist": list}})
	d, err := nutshell.Delivery(manifest(t, p.Tree), json.RawMessage(result), fsys, nutshell.DeliveryInfo{
		ID: "nut-delivery-" + p.ID, Deliverer: "agent " + p.ID, CompletedAt: now.Add(time.Duration(p.Number.Part) * time.Hour), Log: []byte("log of " + p.ID),
	})
	if err != nil {
		t.Fatal(err)
	}
	return parts.Input{Name: "dir-" + p.ID, Tree: d}
}

func options() parts.MergeOptions {
	return parts.MergeOptions{ID: "nut-merged", Now: now, Parent: "nut-whole"}
}

func merge(t testing.TB, inputs []parts.Input, o parts.MergeOptions) *parts.Merged {
	t.Helper()
	m, err := parts.Merge(context.Background(), inputs, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMergeDeliveries(t *testing.T) {
	all := split(t, task(), 2, parts.SplitOptions{})
	m := merge(t, []parts.Input{deliver(t, all[1], map[string]string{"b": "B", "both": "same"}, "partial"), deliver(t, all[0], map[string]string{"a": "A", "both": "same"}, "completed")}, options())
	r := m.Result
	if r.RequestID != "nut-whole" || r.ID != "nut-merged" || r.Status != "partial" || r.CompletedAt != "2026-03-14T12:00:00Z" || r.Deliverer.Name != "agent nut-1, agent nut-2" {
		t.Errorf("%+v", r)
	}
	if a := r.AcceptanceResults; a.TestsPassed != 7 || a.TestsFailed != 2 || len(a.Checklist) != 7 || a.Checklist[0].Item != "A" {
		t.Errorf("%+v", a)
	}
	want := []string{"delivery/artifacts/a", "delivery/artifacts/b", "delivery/artifacts/both", "delivery/logs/part-1/execution.log", "delivery/logs/part-2/execution.log", "delivery/result.json", "nutshell.json"}
	if got := paths(t, m.Tree); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if err := fstest.TestFS(m.Tree, want...); err != nil {
		t.Error(err)
	}
	if got := read(t, m.Tree, "delivery/logs/part-2/execution.log"); got != "log of nut-2" {
		t.Errorf("the log of part 2 is %q", got)
	}
	var made []string
	for _, a := range r.Artifacts.FilesCreated {
		made = append(made, a.Path)
	}
	if !same(made, want[:3]) {
		t.Errorf("artifacts %q", made)
	}
	if d := manifest(t, m.Tree); d.RequestID() != "nut-whole" || d.Task().Title != "T" || d.BundleType() != "delivery" {
		t.Errorf("%s", d.Bytes())
	}
}

func TestSplitAndMerge(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		checklist := rapid.SliceOfN(rapid.StringMatching("[a-d]{1,3}"), 5, 12).Draw(r, "checklist")
		whole := tree(`"acceptance":`+marshal(t, map[string]any{"checklist": checklist}), nil)
		all := split(t, whole, rapid.IntRange(2, 5).Draw(r, "n"), parts.SplitOptions{})
		var inputs []parts.Input
		artifacts := map[string]string{}
		worst := 3
		order := []string{"failed", "blocked", "partial", "completed"}
		for _, p := range all {
			own := map[string]string{}
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x", "y", "dir/z", "dir/w"}), rapid.ID).Draw(r, "artifacts") {
				own[name], artifacts["delivery/artifacts/"+name] = "of "+name, "of "+name
			}
			status := rapid.IntRange(0, 3).Draw(r, "status")
			worst = min(worst, status)
			inputs = append(inputs, deliver(t, p, own, order[status]))
		}
		m := merge(t, rapid.Permutation(inputs).Draw(r, "inputs"), options())
		var items []string
		for _, c := range m.Result.AcceptanceResults.Checklist {
			items = append(items, c.Item)
		}
		if !same(items, checklist) || m.Result.Status != order[worst] || len(m.Missing) > 0 {
			r.Errorf("checklist %q, want %q; status %s, want %s; missing %v", items, checklist, m.Result.Status, order[worst], m.Missing)
		}
		got := map[string]string{}
		for _, p := range paths(t, m.Tree) {
			if strings.HasPrefix(p, "delivery/artifacts/") {
				got[p] = read(t, m.Tree, p)
			}
		}
		if !maps.Equal(got, artifacts) {
			r.Errorf("artifacts %q, want %q", got, artifacts)
		}
	})
}

func TestMissingPart(t *testing.T) {
	all := split(t, task(), 3, parts.SplitOptions{})
	m := merge(t, []parts.Input{deliver(t, all[2], nil, "completed"), deliver(t, all[0], nil, "completed")}, options())
	if !slices.Equal(m.Missing, []int{2}) || m.Result.Status != "partial" || m.Result.CompletionPercentage != 66.67 {
		t.Errorf("missing %v, %s, %v %%", m.Missing, m.Result.Status, m.Result.CompletionPercentage)
	}
}

func TestMergePartDirectory(t *testing.T) {
	p := split(t, task(), 2, parts.SplitOptions{WithVault: true})[0]
	dir := fstest.MapFS{}
	for _, name := range paths(t, p.Tree) {
		dir[name] = &fstest.MapFile{Data: []byte(read(t, p.Tree, name)), Mode: 0o644}
	}
	dir["delivery/artifacts/run"] = &fstest.MapFile{Data: []byte("x"), Mode: 0o755}
	dir["delivery/result.json"] = &fstest.MapFile{Data: []byte(`{"status":"blocked","completion_percentage":40,"u":1.0,"execution_log":{"credentials_used":["db"],"full_log":"delivery/logs/execution.log"},"tags":{"skills_used":["go"]}}`)}
	m := merge(t, []parts.Input{{Name: "p", Tree: dir}}, parts.MergeOptions{ID: "nut-merged", Now: now})
	if got, want := paths(t, m.Tree), []string{"delivery/artifacts/run", "delivery/result.json", "nutshell.json"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	text := read(t, m.Tree, "delivery/result.json")
	if m.RequestID != "nut-whole" || m.Result.CompletionPercentage != 20 || !strings.Contains(text, `"u": 1.0`) || m.Result.ExecutionLog.FullLog != "delivery/logs/execution.log" || m.Result.CompletedAt != "2026-03-14T10:00:00Z" {
		t.Errorf("for %s:\n%s", m.RequestID, text)
	}
	if info, err := fs.Stat(m.Tree, "delivery/artifacts/run"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestMergeConflict(t *testing.T) {
	all := split(t, task(), 2, parts.SplitOptions{})
	for _, c := range []struct{ first, second, path string }{{"x", "x", "delivery/artifacts/x"}, {"x", "X", "delivery/artifacts/X"}, {"x", "x/y", "delivery/artifacts/x"}} {
		inputs := []parts.Input{deliver(t, all[0], map[string]string{c.first: "1"}, "completed"), deliver(t, all[1], map[string]string{c.second: "2"}, "completed")}
		_, err := parts.Merge(context.Background(), inputs, options())
		if e, ok := errors.AsType[*parts.ConflictError](err); !ok || e.Path != c.path || !strings.Contains(err.Error(), "dir-nut-1") || !strings.Contains(err.Error(), "dir-nut-2") {
			t.Errorf("%s and %s: %v", c.first, c.second, err)
		}
	}
	inputs := []parts.Input{deliver(t, all[0], map[string]string{"x": "1"}, "completed"), deliver(t, all[1], map[string]string{"x": "2"}, "completed")}
	for prefer, want := range map[string]string{parts.PreferFirst: "1", parts.PreferLast: "2"} {
		o := options()
		o.Prefer = prefer
		m := merge(t, inputs, o)
		if got := read(t, m.Tree, "delivery/artifacts/x"); got != want || !slices.Equal(m.Replaced, []string{"delivery/artifacts/x"}) {
			t.Errorf("%s: %q, replaced %q", prefer, got, m.Replaced)
		}
	}
}

func TestMergeErrors(t *testing.T) {
	all, others := split(t, task(), 2, parts.SplitOptions{}), split(t, task(), 3, parts.SplitOptions{})
	noParent, prefer := options(), options()
	noParent.Parent, prefer.Prefer = "", "mine"
	orphan := fstest.MapFS{
		"nutshell.json":        {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-d","task":{"title":"Of no part"}}`)},
		"delivery/result.json": {Data: []byte(`{"status":"completed"}`)},
	}
	in := func(p parts.Part) parts.Input { return deliver(t, p, nil, "completed") }
	for name, c := range map[string]struct {
		inputs []parts.Input
		o      parts.MergeOptions
		want   error
	}{
		"no parent":         {[]parts.Input{{Name: "p", Tree: orphan}}, noParent, parts.ErrNoParent},
		"parts of others":   {[]parts.Input{in(all[0]), in(others[1])}, options(), parts.ErrParents},
		"one part twice":    {[]parts.Input{in(all[0]), in(all[0])}, options(), parts.ErrTwice},
		"no result":         {[]parts.Input{{Name: "p", Tree: all[0].Tree}}, options(), parts.ErrNoResult},
		"no bundle":         {[]parts.Input{{Name: "p", Tree: fstest.MapFS{}}}, options(), nutshell.ErrNoManifest},
		"nothing":           {nil, options(), nil},
		"a wrong prefer":    {[]parts.Input{in(all[0])}, prefer, nil},
		"a wrong parent id": {[]parts.Input{{Name: "p", Tree: withResult(all[0].Tree, t)}}, parts.MergeOptions{ID: "nut-m", Now: now, Parent: "nut-x"}, parts.ErrParents},
	} {
		if _, err := parts.Merge(context.Background(), c.inputs, c.o); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func withResult(fsys fs.FS, t testing.TB) fs.FS {
	return fstest.MapFS{"nutshell.json": {Data: []byte(read(t, fsys, "nutshell.json"))}, "delivery/result.json": {Data: []byte(`{"status":"completed"}`)}}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"status":"completed","completion_percentage":1e9,"acceptance_results":{"tests_passed":9223372036854775807,"checklist":[{"item":"a"}]}}`), []byte(`{"status":"failed","x":[],"artifacts":{"files_created":[{"path":"p"},1]}}`))
	f.Add([]byte(`{"status":"partial","execution_log":{"decisions":[{}],"credentials_used":["a",{"name":"b"}]},"extensions":{"split":1}}`), []byte(`{"status":"blocked","tags":{"skills_used":["a","a"]}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var inputs []parts.Input
		for i, result := range [][]byte{a, b} {
			manifest := fmt.Sprintf(`{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-%d","request_id":"nut-r%d","task":{"title":"T (part %d of 2)"}}`, i, i, i+1)
			inputs = append(inputs, parts.Input{Name: fmt.Sprint(i), Tree: fstest.MapFS{"nutshell.json": {Data: []byte(manifest)}, "delivery/result.json": {Data: result}}})
		}
		m, err := parts.Merge(context.Background(), inputs, options())
		if err != nil {
			return
		}
		if r := m.Result; r.CompletionPercentage < 0 || r.CompletionPercentage > 100 || r.AcceptanceResults.TestsPassed < 0 || r.ID != "nut-merged" || r.RequestID != "nut-whole" {
			t.Errorf("%+v", r)
		}
	})
}
