package draft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/check"
	"guild/nutshell/ignore"
)

// Outline describes a new bundle.
type Outline struct {
	Type                     string // one of the types of nutshell
	Title, Summary, Priority string
	Skills                   []string
}

// initFlags say what init begins with, and where.
type initFlags struct {
	Outline
	dir string
}

// Values of --type and --priority.
func bundleTypes() []string {
	return []string{nutshell.TypeRequest, nutshell.TypeDelivery, nutshell.TypeTemplate, nutshell.TypeCheckpoint, nutshell.TypePartial}
}

func priorities() []string { return []string{"critical", "high", "medium", "low"} }

func (p program) initCommand() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Begin a bundle in a directory",
		Long: `Write nutshell.json, a template for the requirements and a .nutignore into a
directory, which is made if it is not there. On a terminal it asks for what the
flags do not say. Files that are there already stay as they are.`,
		Example: p.Examples("init my-task", `init --dir my-task --title "Sort a list" --skills python`),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one directory at most"),
	}
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.StringVar(&f.Title, "title", "", "what is to be done, in one line")
	flags.StringVar(&f.Summary, "summary", "", "the same in a sentence or two")
	flags.StringVar(&f.Priority, "priority", "medium", "one of "+strings.Join(priorities(), ", "))
	flags.StringSliceVar(&f.Skills, "skills", nil, "what it takes, with commas between")
	flags.StringVar(&f.Type, "type", nutshell.TypeRequest, "one of "+strings.Join(bundleTypes(), ", "))
	cli.Choices(cmd, "priority", priorities()...)
	cli.Choices(cmd, "type", bundleTypes()...)
	return p.Verb(cmd, "print what was made as JSON, and ask nothing", func(cmd *cobra.Command, args []string) (host.Result, error) {
		var err error
		if f.dir, err = host.DirOf(cmd, args, f.dir); err != nil {
			return nil, err
		}
		return p.init(cmd, f)
	})
}

func (p program) init(cmd *cobra.Command, f initFlags) (host.Result, error) {
	if !slices.Contains(bundleTypes(), f.Type) {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("%q is not a type of bundle", f.Type)), "--type is one of "+strings.Join(bundleTypes(), ", "))
	}
	if !slices.Contains(priorities(), f.Priority) {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("%q is not a priority", f.Priority)), "--priority is one of "+strings.Join(priorities(), ", "))
	}
	_, err := os.Lstat(filepath.Join(f.dir, nutshell.ManifestFile))
	if err == nil {
		return nil, cli.WithHint(fmt.Errorf("%s has a %s already", f.dir, nutshell.ManifestFile), "'"+p.Within(f.dir, "check")+"' says what it lacks")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !cli.AsJSON(cmd) && p.Asks() {
		if err := p.askInit(cmd, &f); err != nil {
			return nil, err
		}
	}
	made, err := p.begin(cmd.Context(), f)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// askInit asks for what the flags do not say.
func (p program) askInit(cmd *cobra.Command, f *initFlags) error {
	a, err := p.Asker(cmd.Context())
	if err != nil {
		return err
	}
	given := cmd.Flags().Changed
	if !given("title") {
		if f.Title, err = a.Line("What is to be done, in one line?", "The title of the task."); err != nil {
			return err
		}
	}
	if f.Type == nutshell.TypeDelivery {
		return nil
	}
	if !given("summary") {
		if f.Summary, err = a.Line("And in a sentence or two?", "The summary, which agents read first."); err != nil {
			return err
		}
	}
	if !given("priority") {
		if f.Priority, err = a.Choose("How urgent is it?", f.Priority, priorities()...); err != nil {
			return err
		}
	}
	if !given("skills") {
		skills, err := a.Line("Which skills does it take? (with commas between)", "Such as golang, postgresql.")
		if err != nil {
			return err
		}
		f.Skills = strings.Split(skills, ",")
	}
	return nil
}

// initResult describes the directory that was made.
type initResult struct {
	Dir      string   `json:"dir"`
	ID       string   `json:"id"`
	Files    []string `json:"files"`
	Kept     []string `json:"kept"` // what was there before
	Status   string   `json:"status"`
	Missing  []string `json:"missing"`
	Warnings []string `json:"warnings"`

	report check.Report
}

// begin writes the files of a new bundle, the manifest last, so that there is none without the others. Then it writes
// into the manifest what is still missing.
func (p program) begin(ctx context.Context, f initFlags) (*initResult, error) {
	id, err := host.NewID(p.Random)
	if err != nil {
		return nil, err
	}
	manifest, err := Manifest(f.Outline, id, p.Now())
	if err != nil {
		return nil, err
	}
	files := []struct {
		name    string
		content []byte
	}{{"context/requirements.md", requirementsTemplate(f.Title)}, {ignore.File, []byte(nutignore)}, {nutshell.ManifestFile, manifest}}
	if f.Type == nutshell.TypeDelivery {
		files = files[1:] // a delivery has no requirements
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return nil, err
	}
	made := &initResult{Dir: f.dir, ID: id, Files: []string{}, Kept: []string{}}
	for _, file := range files {
		err := host.WriteNew(f.dir, file.name, file.content, 0o644)
		switch {
		case err == nil:
			made.Files = append(made.Files, file.name)
		case errors.Is(err, host.ErrExists) && file.name != nutshell.ManifestFile:
			made.Kept = append(made.Kept, file.name)
		default:
			return nil, err
		}
	}
	tree, done, err := p.OpenTree(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := p.completeness(tree, false)
	if err != nil {
		return nil, err
	}
	made.report = r
	made.Status, made.Missing, made.Warnings = r.Status, r.Missing(), r.Warnings()
	return made, writeCompleteness(f.dir, r)
}

// Manifest returns a manifest to begin with, in the specification's order.
func Manifest(o Outline, id string, now time.Time) ([]byte, error) {
	type task struct {
		Title    string `json:"title"`
		Summary  string `json:"summary"`
		Priority string `json:"priority"`
	}
	type tags struct {
		Skills  []string `json:"skills_required"`
		Domains []string `json:"domains"`
	}
	type pointers struct {
		Requirements string   `json:"requirements"`
		Additional   []string `json:"additional"`
	}
	type harness struct {
		Agent       string   `json:"agent_type_hint"`
		Budget      float64  `json:"context_budget_hint"`
		Strategy    string   `json:"execution_strategy"`
		Checkpoints bool     `json:"checkpoints"`
		Constraints []string `json:"constraints"`
	}
	m := struct {
		Version   string    `json:"nutshell_version"`
		Type      string    `json:"bundle_type"`
		ID        string    `json:"id"`
		CreatedAt string    `json:"created_at"`
		Task      task      `json:"task"`
		Tags      *tags     `json:"tags,omitempty"`
		Context   *pointers `json:"context,omitempty"`
		Harness   *harness  `json:"harness,omitempty"`
	}{Version: nutshell.Version, Type: o.Type, ID: id, CreatedAt: now.UTC().Format(time.RFC3339), Task: task{o.Title, o.Summary, o.Priority}, Tags: nil, Context: nil, Harness: nil}
	if o.Type != nutshell.TypeDelivery {
		m.Tags = &tags{words(o.Skills), []string{}}
		m.Context = &pointers{"context/requirements.md", []string{}}
		m.Harness = &harness{Agent: "execution", Budget: 0.35, Strategy: "incremental", Checkpoints: true, Constraints: []string{}}
	}
	return document(m)
}

// words returns texts without the space around them, and without empty ones.
func words(texts []string) []string {
	all := []string{}
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" {
			all = append(all, t)
		}
	}
	return all
}

// Print implements host.Result.
func (b *initResult) Print(p *host.Program) error {
	var out strings.Builder
	for _, file := range b.Files {
		fmt.Fprintf(&out, "wrote %s\n", cli.Clean(filepath.Join(b.Dir, file)))
	}
	for _, file := range b.Kept {
		fmt.Fprintf(&out, "kept %s\n", cli.Clean(filepath.Join(b.Dir, file)))
	}
	for _, i := range b.report.Items {
		if i.Mark != check.OK {
			fmt.Fprintf(&out, "%s %s\n", sign(i.Mark, cli.Colours(p.Out)), cli.Clean(i.Text))
		}
	}
	fmt.Fprintf(&out, "next: write %s, then '%s'\n", cli.Clean(filepath.Join(b.Dir, b.first())), cli.Clean(p.Within(b.Dir, "check --fix")))
	_, err := io.WriteString(p.Out, out.String())
	return err
}

// first returns the file that the person should write first.
func (b *initResult) first() string {
	if slices.Contains(append(b.Files, b.Kept...), "context/requirements.md") {
		return "context/requirements.md"
	}
	return nutshell.ResultFile
}
