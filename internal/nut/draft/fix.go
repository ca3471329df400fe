package draft

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"guild/internal/cli"
	"guild/internal/nut/credential"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/check"
)

// fixer asks a person about what a check found.
type fixer struct {
	*cli.Prompt
	p     program
	ctx   context.Context
	dir   string
	title string
	m     *nutshell.Manifest // as it was at the beginning
	asked map[check.Credential]bool
	test  string // the script that a criterion can name; empty if there is none

	refused bool // the person has no test
}

// fix asks about each gap of a directory and does what the person agrees to: it writes new files from templates, and
// members of the manifest. It never overwrites a file.
func (p program) fix(ctx context.Context, dir string) error {
	a, err := p.Asker(ctx)
	if err != nil {
		return cli.WithHint(err, "'"+p.Within(dir, "check")+"' lists what to do")
	}
	tree, done, err := p.OpenTree(ctx, dir)
	if err != nil {
		return err
	}
	defer done()
	report, err := p.completeness(tree, false)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	m, err := nutshell.ReadManifest(tree)
	if err != nil {
		return err
	}
	test := ""
	if scripts := m.Acceptance().TestScripts; len(scripts) > 0 {
		test = scripts[0]
	}
	f := &fixer{Prompt: a, p: p, ctx: ctx, dir: dir, title: m.Task().Title, m: m, asked: make(map[check.Credential]bool), test: test}
	if err := f.extras(); err != nil {
		return err
	}
	for _, i := range report.Items {
		if i.Mark == check.OK {
			continue
		}
		if err := f.item(i); err != nil {
			return err
		}
	}
	return nil
}

// item asks about one line of the report. It skips what no question can fix; check prints that afterwards.
func (f *fixer) item(i check.Item) error {
	section, _, _ := strings.Cut(i.Field, ".")
	switch {
	case len(i.Wants) > 0:
		return f.credentials(i.Wants)
	case i.Field == "nutshell_version":
		return f.setIf("Set nutshell_version to "+nutshell.Version+"?", i.Field, nutshell.Version)
	case i.Field == "bundle_type":
		return f.setIf("Set bundle_type to request?", i.Field, nutshell.TypeRequest)
	case i.Field == "id":
		id, err := host.NewID(f.p.Random)
		if err != nil {
			return err
		}
		return f.setIf("Give the bundle the new id "+id+"?", i.Field, id)
	case i.Field == "expires_at":
		until := f.p.Now().UTC().AddDate(0, 0, 7).Format(time.RFC3339)
		return f.setIf(i.Text+". Move it to "+until+"?", i.Field, until)
	case i.Field == "task.title":
		return f.setLine("What is to be done, in one line?", "The title of the task.", i.Field)
	case i.Field == "task.summary":
		return f.setLine("What is the task, in a sentence or two?", "The summary, which agents read first.", i.Field)
	case section == "context" && f.absent(i):
		return f.contextFile(i)
	case i.Field == "apis.endpoints_spec" && f.absent(i) && i.Path == f.m.APIs().EndpointsSpec:
		return f.endpoints(i)
	case i.Field == "acceptance.criteria_file" && f.absent(i):
		return f.criteria(i)
	case i.Field == "acceptance.test_scripts":
		return f.firstScript()
	case section == "acceptance" && f.absent(i):
		_, err := f.script(i.Path)
		return err
	case i.Field == "harness.constraints":
		return f.constraints()
	case i.Field == "harness.context_budget_hint":
		return f.setIf(i.Text+". Set it to 0.35?", i.Field, 0.35)
	}
	return nil
}

// absent reports whether an item is about a file that is not there.
func (f *fixer) absent(i check.Item) bool {
	if i.Path == "" || i.Mark != check.Missing {
		return false
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(i.Path)
	return errors.Is(err, fs.ErrNotExist)
}

// extras asks about what a check does not require.
func (f *fixer) extras() error {
	if f.m.Context().Requirements != "" || f.m.BundleType() == nutshell.TypeDelivery {
		return nil
	}
	const file = "context/requirements.md"
	if ok, err := f.Yes("There are no requirements. Write " + file + " from a template?"); !ok {
		return err
	}
	err := f.write(file, requirementsTemplate(f.title), 0o644)
	if err != nil && !errors.Is(err, host.ErrExists) {
		return err
	}
	return f.set("context.requirements", file)
}

// set changes one member of the manifest.
func (f *fixer) set(field string, value any) error {
	return host.RewriteManifest(f.dir, func(m *nutshell.Manifest) error { return m.Set(field, value) })
}

// setIf changes a member if the person agrees.
func (f *fixer) setIf(question, field string, value any) error {
	if ok, err := f.Yes(question); !ok {
		return err
	}
	return f.set(field, value)
}

// setLine asks for a member that is text.
func (f *fixer) setLine(question, why, field string) error {
	answer, err := f.Line(question, why)
	if err != nil || answer == "" {
		return err
	}
	if field == "task.title" {
		f.title = answer
	}
	return f.set(field, answer)
}

// write makes a file and says so.
func (f *fixer) write(name string, content []byte, mode fs.FileMode) error {
	if err := host.WriteNew(f.dir, name, content, mode); err != nil {
		return err
	}
	_, err := fmt.Fprintf(f.p.Out, "wrote %s\n", cli.Clean(name))
	return err
}

// contextFile writes a text from its template.
func (f *fixer) contextFile(i check.Item) error {
	if ok, err := f.Yes("Write " + i.Path + " from a template?"); !ok {
		return err
	}
	content := otherTemplate(i.Path, f.title)
	switch i.Field {
	case "context.requirements":
		content = requirementsTemplate(f.title)
	case "context.architecture":
		content = architectureTemplate(f.title)
	case "context.references":
		content = referencesTemplate(f.title)
	}
	return f.write(i.Path, content, 0o644)
}

// endpoints writes the description of an interface, with its first endpoint.
func (f *fixer) endpoints(i check.Item) error {
	answer, err := f.Line("Which endpoint may be called? (as in: GET /api/v1/users)", "For "+i.Path+"; others can be added there.")
	method, path, ok := strings.Cut(answer, " ")
	if err != nil || !ok {
		return err
	}
	base := ""
	if urls := f.m.APIs().BaseURLs; len(urls) > 0 {
		base = urls[slices.Min(slices.Collect(maps.Keys(urls)))]
	}
	content, err := firstEndpoints(base, strings.ToUpper(method), strings.TrimSpace(path), "")
	if err != nil {
		return err
	}
	return f.write(i.Path, content, 0o644)
}

// criteria writes the file of criteria, with the first one.
func (f *fixer) criteria(i check.Item) error {
	description, err := f.Line("What must be true when the work is done?", "The first criterion in "+i.Path+"; others can be added there.")
	if err != nil || description == "" {
		return err
	}
	if err := f.firstScript(); err != nil {
		return err
	}
	content, err := firstCriteria(description, f.test)
	if err != nil {
		return err
	}
	return f.write(i.Path, content, 0o644)
}

// firstScript writes a test, unless there is one, and names it in the manifest.
func (f *fixer) firstScript() error {
	if f.test != "" || f.refused {
		return nil
	}
	const file = "tests/scripts/test.sh"
	var ok bool
	var err error
	if _, missing := os.Lstat(filepath.Join(f.dir, file)); missing == nil {
		ok, err = f.Yes("Name " + file + " as the test?")
	} else {
		ok, err = f.script(file)
	}
	if !ok || err != nil {
		f.refused = true
		return err
	}
	f.test = file
	return f.set("acceptance.test_scripts", []string{file})
}

// script writes a test that runs a command. It reports false if the person has none.
func (f *fixer) script(file string) (bool, error) {
	command, err := f.Line("Which command shows that the work is done? (as in: go test ./...)", "It becomes "+file+".")
	if err != nil || command == "" {
		return false, err
	}
	return true, f.write(file, testScript(command), 0o755)
}

// credentials runs add-credential, which asks for the values without echo.
func (f *fixer) credentials(wants []check.Credential) error {
	for _, w := range wants {
		if f.asked[w] {
			continue
		}
		f.asked[w] = true
		if ok, err := f.Yes(fmt.Sprintf("Add the credential %s (%s)?", w.Name, w.Type)); err != nil {
			return err
		} else if !ok {
			continue
		}
		cmd := cli.Root(credential.AddCommand(f.p.Program))
		cmd.SetArgs([]string{"--name=" + w.Name, "--type=" + w.Type, "--dir=" + f.dir})
		if err := cmd.ExecuteContext(f.ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *fixer) constraints() error {
	all, err := f.Lines("What must the agent never do? (empty: nothing)")
	if err != nil || len(all) == 0 {
		return err
	}
	return f.set("harness.constraints", all)
}
