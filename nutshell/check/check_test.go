package check_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"guild/internal/cputest"
	"guild/nutshell"
	"guild/nutshell/check"
)

// now is two weeks after the specification's examples.
var now = time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)

// tree is a bundle's directory. A file is its path, or "path=content".
func tree(manifest string, files ...string) fstest.MapFS {
	fsys := fstest.MapFS{"nutshell.json": {Data: []byte(manifest)}}
	for _, file := range files {
		p, content, ok := strings.Cut(file, "=")
		if !ok {
			content = "something to read\n"
		}
		fsys[p] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

// task is a manifest that lacks nothing, and more members. Its test is t.sh.
func task(members string) string {
	m := `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"T","summary":"S"}`
	if !strings.Contains(members, `"harness"`) {
		m += `,"harness":{"constraints":["c"]}`
	}
	if !strings.Contains(members, `"acceptance"`) {
		m += `,"acceptance":{"test_scripts":["t.sh"]}`
	}
	if members != "" {
		m += "," + members
	}
	return m + "}"
}

// usual are the lines about what task has.
var usual = []string{
	`✓ task.title: "T"`, "✓ task.summary: provided", "✓ t.sh: exists (18 B)", "✓ harness.constraints: provided (1)",
}

// lines shows a report without the usual.
func lines(r check.Report) []string {
	signs := map[check.Mark]string{check.OK: "✓", check.Missing: "✗", check.Warning: "⚠"}
	all := []string{}
	for _, i := range r.Items {
		if line := signs[i.Mark] + " " + i.Text; !slices.Contains(usual, line) {
			all = append(all, line)
		}
	}
	return all
}

func TestTreeFindings(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			files := c.files
			if strings.Contains(c.manifest, `"t.sh"`) {
				files = append(files, "t.sh")
			}
			r, err := check.Tree(tree(c.manifest, files...), check.Options{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if got := lines(r); !slices.Equal(got, c.want) {
				t.Errorf("it says\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if got := r.Missing(); !slices.Equal(got, c.missing) {
				t.Errorf("missing: %q, not %q", got, c.missing)
			}
			if r.Ready() != (len(c.missing) == 0) {
				t.Errorf("it is %s", r.Status)
			}
			var fixes []string
			for _, i := range r.Items {
				if i.Fix != "" {
					fixes = append(fixes, i.Fix)
				}
			}
			if c.fixes != nil && !slices.Equal(fixes, c.fixes) && !contains(fixes, c.fixes) {
				t.Errorf("fixes:\n%s\nnot\n%s", strings.Join(fixes, "\n"), strings.Join(c.fixes, "\n"))
			}
		})
	}
}

// contains reports whether all of some is in all.
func contains(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

func TestDraft(t *testing.T) {
	r, err := check.Tree(tree(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":" "}}`), check.Options{})
	if err != nil || r.Status != check.Draft || r.Ready() {
		t.Errorf("%s, %v", r.Status, err)
	}
}

func TestPackedBundle(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		files    []string
		want     []string
	}{
		"the vault travels beside it": {
			task(`"credentials":{"vault":"v.json","beside":true,` + scopes + `}`), nil,
			[]string{"✓ v.json: travels beside the bundle"},
		},
		"the vault should travel beside it": {
			task(`"credentials":{"vault":"v.json","beside":true,` + scopes + `}`), []string{"v.json=" + ageFile},
			[]string{
				"⚠ v.json: is in the bundle, although credentials.beside says that it travels beside it",
				"✓ v.json: exists (72 B), sealed with age for 1 key",
			},
		},
		"hidden tests are committed to": {
			task(`"acceptance":{"test_scripts":["t.sh"],"hidden_tests":[{"path":"tests/hidden/a","hash":"` + strings.Repeat("0", 64) + `"}]}`), nil,
			[]string{"✓ acceptance.hidden_tests: committed to (1)"},
		},
		"hidden tests that anybody can see": {
			task(""), []string{"tests/hidden/a"},
			[]string{"✗ tests/hidden: 1 hidden test is in the bundle — agent can read them"},
		},
	} {
		r, err := check.Tree(tree(c.manifest, append(c.files, "t.sh")...), check.Options{Now: now, Packed: true})
		if got := lines(r); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v\n%s", name, err, strings.Join(got, "\n"))
		}
	}
}

func TestOpenedVault(t *testing.T) {
	for name, c := range map[string]struct {
		state check.VaultState
		err   error
		want  string
	}{
		"it has what the scopes say":  {check.VaultState{Opened: true, Names: []string{"staging-db"}}, nil, ""},
		"a scope is not in it":        {check.VaultState{Opened: true}, nil, `✗ credentials: "staging-db" is not in the vault — agent won't have DB access`},
		"what is in it has expired":   {check.VaultState{Opened: true, Names: []string{"staging-db"}, Expired: []string{"staging-db"}}, nil, `⚠ credentials: "staging-db" expired — agent won't have access`},
		"it is for somebody else":     {check.VaultState{}, nil, ""},
		"it does not hold together":   {check.VaultState{}, errors.New("tampered"), "⚠ v.json: could not be opened here: tampered"},
		"it expired by its own words": {check.VaultState{Opened: true, Names: []string{"staging-db"}, Expired: []string{"api"}}, nil, `⚠ credentials: "api" expired — agent won't have access`},
	} {
		asked := ""
		o := check.Options{Now: now, Vault: func(sealed []byte, form string) (check.VaultState, error) {
			asked = form + " " + string(sealed)
			return c.state, c.err
		}}
		r, err := check.Tree(tree(task(vaultAge), "t.sh", "v.json="+ageFile), o)
		want := []string{"✓ v.json: exists (72 B), sealed with age for 1 key"}
		if c.want != "" {
			want = append(want, c.want)
		}
		if got := lines(r); err != nil || !slices.Equal(got, want) || asked != "age "+ageFile {
			t.Errorf("%s: asked %q: %v\n%s", name, asked, err, strings.Join(got, "\n"))
		}
	}
}

func TestReferenceToExcludedFile(t *testing.T) {
	fsys := tree(task(`"context":{"requirements":"r.log"}`), "t.sh", "r.log")
	r, err := check.Tree(fsys, check.Options{Exclude: func(p string) bool { return strings.HasSuffix(p, ".log") }})
	if got := lines(r); err != nil || !slices.Equal(got, []string{"✗ r.log: referenced but left out when packing"}) {
		t.Errorf("%v %q", err, got)
	}
}

func TestCommandsNameTheProgram(t *testing.T) {
	r, err := check.Tree(tree(task(`"credentials":{`+scopes+`}`), "t.sh"), check.Options{Program: "guild nut"})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Items, func(i check.Item) bool { return i.Field == "credentials.vault" })
	if got := r.Items[i].Fix; got != "Add credentials with: guild nut add-credential --name staging-db --type postgresql" {
		t.Error(got)
	}
	if got := r.Items[i].Wants; !slices.Equal(got, []check.Credential{{"staging-db", "postgresql"}}) {
		t.Error(got)
	}
}

func TestSectionLength(t *testing.T) {
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `,{"path":"files/%d"}`, i)
	}
	fsys := tree(task(`"files":{"tree":[{"path":"t.sh"}`+many.String()+`]}`), "t.sh")
	r, err := check.Tree(fsys, check.Options{})
	if err != nil || len(r.Items) > 50 || r.Status != check.Incomplete {
		t.Fatalf("%d lines, %s, %v", len(r.Items), r.Status, err)
	}
	if !slices.Contains(lines(r), "✗ files: 961 more lines like these") {
		t.Errorf("%q", lines(r))
	}
}

func TestTreeWithoutManifest(t *testing.T) {
	if _, err := check.Tree(fstest.MapFS{}, check.Options{}); !errors.Is(err, nutshell.ErrNoManifest) {
		t.Error(err)
	}
	if _, err := check.Validate(fstest.MapFS{}, check.Options{}); !errors.Is(err, nutshell.ErrNoManifest) {
		t.Error(err)
	}
	if _, ok := errors.AsType[*nutshell.ManifestError](second(check.Tree(tree("[]"), check.Options{}))); !ok {
		t.Error("a list is a manifest")
	}
}

func second(_ check.Report, err error) error { return err }

func TestInvalidBundles(t *testing.T) {
	hash := "sha256:" + strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		manifest string
		files    []string
		want     []string
	}{
		"nothing, where only advice is due": {`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"T"}}`, nil, nil},
		"invalid manifest":                  {"[]", nil, []string{"✗ nutshell.json: is not a JSON object"}},
		"a member of the wrong type":        {`{"task":3}`, nil, []string{"✗ nutshell.json: task: must not be a JSON number"}},
		"a version that nobody knows":       {strings.Replace(task(""), "0.2.0", "1.0.0", 1), nil, []string{`✗ nutshell_version: "1.0.0" is not known, only 0.x`}},
		"a deadline that has passed":        {task(`"expires_at":"2026-03-21T10:00:00Z"`), nil, []string{"✗ expires_at: passed on 2026-03-21 — agent would come too late"}},
		"a path that leads nowhere":         {task(`"context":{"requirements":"r.md"}`), nil, []string{"✗ r.md: referenced but missing"}},
		"not credentials without a vault":   {task(`"credentials":{` + scopes + `}`), nil, []string{"⚠ credentials: no vault configured — agent won't have DB access"}},
		"a file that is not the one listed": {task(`"files":{"tree":[{"path":"t.sh","hash":"` + hash + `"}]}`), nil, []string{"✗ t.sh: is not the file that files.tree lists (sha256 differs)"}},
		"an invalid hash":                   {task(`"files":{"tree":[{"path":"t.sh","hash":"md5:1"}]}`), nil, []string{"✗ t.sh: its hash in files.tree is invalid: md5:1"}},
		"not a size, which packing writes":  {task(`"files":{"tree":[{"path":"t.sh","size":99}]}`), nil, nil},
	} {
		r, err := check.Validate(tree(c.manifest, append(c.files, "t.sh")...), check.Options{Now: now})
		got := slices.DeleteFunc(lines(r), func(l string) bool { return strings.HasPrefix(l, "✓") })
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v %q", name, err, got)
		}
		if wrong := r.Count(check.Missing) > 0; wrong == r.Ready() {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
}

// odd is a tree whose files cannot be read.
type odd struct{ fs.FS }

func (o odd) Open(name string) (fs.File, error) {
	if name == "nutshell.json" {
		return o.FS.Open(name)
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestUnreadableFile(t *testing.T) {
	r, err := check.Tree(odd{tree(task(""), "t.sh")}, check.Options{})
	if got := lines(r); err != nil || !slices.Equal(got, []string{"✗ t.sh: cannot be read: open t.sh: permission denied"}) {
		t.Errorf("%v %q", err, got)
	}
}

func TestManyScopes(t *testing.T) {
	look := func(n int) func() {
		var scopes strings.Builder
		for i := range n {
			fmt.Fprintf(&scopes, `{"name":"c%d"},`, i)
		}
		m := task(`"credentials":{"scopes":[` + strings.TrimSuffix(scopes.String(), ",") + `]}`)
		return func() {
			if _, err := check.Tree(tree(m, "t.sh"), check.Options{Now: now}); err != nil {
				t.Fatal(err)
			}
		}
	}
	few := look(100_000 / 16)
	apart := cputest.Spent(t, func() {
		for range 16 {
			few()
		}
	})
	if took := cputest.Spent(t, look(100_000)); took > 4*apart+time.Second {
		t.Errorf("took %v, and %v in sixteen manifests", took, apart)
	}
}
