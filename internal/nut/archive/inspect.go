package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/nut/credential"
	"guild/internal/nut/host"
	"guild/nutshell"
)

func (p program) inspectCommand() *cobra.Command {
	var files bool
	cmd := &cobra.Command{
		Use:   "inspect FILE|DIR|-",
		Short: "Show what is in a bundle, without unpacking it",
		Long: `Show what is in a bundle, without unpacking it. The whole bundle is read and
checked, as unpack would; - reads it from standard input. Of credentials, names
and scopes are shown, never values.

A directory shows what is there; packing may leave some of it out.

With --files, each file has a mark: ✓ if it is what the manifest says by its
hash, ✗ if it is not, and - if the manifest does not say.`,
		Example: "  " + p.Hint("inspect task.nut --files") + "\n" +
			"  curl -s https://example.com/task.nut | " + p.Hint("inspect -") + "\n" +
			"  " + p.Hint("inspect task.nut --json | jq -r .manifest.task.title"),
		Args:              cli.OneArg("a bundle, a directory, or - for standard input"),
		ValidArgsFunction: host.CompleteBundles,
	}
	cmd.Flags().BoolVar(&files, "files", false, "list the files")
	p.LimitFlag(cmd)
	return p.Verb(cmd, "print it as JSON, with the manifest as it is written", func(cmd *cobra.Command, args []string) (host.Result, error) {
		read := p.fileContents
		if info, err := os.Stat(args[0]); args[0] != "-" && err == nil && info.IsDir() {
			read = p.directoryContents
		}
		c, err := read(cmd.Context(), args[0])
		switch {
		case err == nil:
			c.list = files
			return c, nil
		case cli.HintOf(err) != "":
			return nil, err
		case errors.Is(err, nutshell.ErrEncrypted):
			return nil, cli.WithHint(err, "ask for the bundle without --encrypt; what is secret belongs into its vault")
		case errors.Is(err, nutshell.ErrNotBundle):
			return nil, cli.WithHint(err, "bundles are made by '"+p.Hint("pack")+"'")
		}
		return nil, err
	})
}

// contents describes a bundle. Entries lists all paths, the manifest's among them.
type contents struct {
	Manifest    json.RawMessage       `json:"manifest"`
	Files       []inspectedFile       `json:"files"`
	Entries     []string              `json:"entries"`
	Hash        guild.Hash            `json:"hash,omitzero"`         // of a bundle
	Size        int64                 `json:"size,omitempty"`        // of a bundle, in bytes
	Compression string                `json:"compression,omitempty"` // of a bundle, as it really is
	Warnings    []string              `json:"warnings"`
	Result      json.RawMessage       `json:"result,omitempty"` // of a delivery
	Hidden      []nutshell.HiddenTest `json:"hidden_tests,omitempty"`

	manifest *nutshell.Manifest
	stated   map[string]nutshell.TreeEntry // files.tree by path
	result   nutshell.Result
	list     bool // print the list of files too
}

// inspectedFile is a file beside the manifest.
type inspectedFile struct {
	Path string     `json:"path"`
	Size int64      `json:"size"`
	Role string     `json:"role,omitempty"`
	Hash guild.Hash `json:"hash"`

	// Listed says whether the manifest has the file's hash, and Matches whether it is the right one.
	Listed  bool `json:"listed"`
	Matches bool `json:"matches"`
}

// fileContents reads a bundle file.
func (p program) fileContents(_ context.Context, path string) (*contents, error) {
	b, err := p.OpenBundle(path)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	c := newContents(b.Manifest())
	c.Warnings = append(c.Warnings, b.Warnings...)
	for _, e := range b.Files() {
		c.add(e.Path, e.Size, e.Hash)
	}
	c.takeResult(b.ReadFile(nutshell.ResultFile))
	c.Size, c.Compression = b.Size, nutshell.None
	if c.Hash, err = b.Hash(); err != nil {
		return nil, err
	}
	head := make([]byte, 8)
	if _, err := b.File.ReadAt(head, 0); err != nil {
		return nil, err
	}
	archive := string(head[4:])
	switch {
	case strings.HasPrefix(archive, "\x1f\x8b"):
		c.Compression = nutshell.Gzip
	case archive == "\x28\xb5\x2f\xfd":
		c.Compression = nutshell.Zstd
	}
	return c, nil
}

func newContents(m *nutshell.Manifest) *contents {
	c := &contents{
		Manifest: m.Bytes(), Files: []inspectedFile{}, Warnings: []string{}, Hidden: m.Acceptance().HiddenTests,
		manifest: m, stated: map[string]nutshell.TreeEntry{},
	}
	for _, e := range m.Files().Tree {
		c.stated[e.Path] = e
	}
	return c
}

// takeResult reads the result of a delivery.
func (c *contents) takeResult(raw []byte, err error) {
	if c.manifest.BundleType() != nutshell.TypeDelivery || errors.Is(err, fs.ErrNotExist) {
		return
	}
	var r *nutshell.Result
	if err == nil {
		r, err = nutshell.ParseResult(raw)
	}
	if err != nil {
		c.Warnings = append(c.Warnings, err.Error())
		return
	}
	c.result, c.Result = *r, r.Raw
}

// directoryContents reads a bundle that is not packed yet. Faults of its manifest become warnings.
func (p program) directoryContents(ctx context.Context, dir string) (*contents, error) {
	if err := p.Editable(dir); err != nil {
		return nil, err
	}
	tree, done, err := p.OpenTree(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := nutshell.ReadManifest(tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	c := newContents(m)
	odd, err := m.Validate()
	if err != nil {
		odd = append(odd, err.Error())
	}
	c.Warnings = append(c.Warnings, odd...)
	c.takeResult(fs.ReadFile(tree, nutshell.ResultFile))
	return c, fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		hash, size, err := host.HashFile(tree, name)
		c.add(name, size, hash)
		return err
	})
}

// add adds a file.
func (c *contents) add(path string, size int64, hash guild.Hash) {
	c.Entries = append(c.Entries, path)
	if path == nutshell.ManifestFile {
		return
	}
	stated := c.stated[path]
	want, err := guild.ParseHash(stated.Hash)
	c.Files = append(c.Files, inspectedFile{Path: path, Size: size, Role: stated.Role, Hash: hash, Listed: err == nil, Matches: err == nil && want == hash})
}

// Print implements host.Result.
func (c *contents) Print(p *host.Program) error {
	m := c.manifest
	fmt.Fprintln(p.Out, cli.Clean(cmp.Or(m.Task().Title, "(no title)")))
	if m.Task().Summary != "" {
		fmt.Fprintln(p.Out, cli.Clean(m.Task().Summary))
	}
	fmt.Fprintln(p.Out)
	rows := slices.DeleteFunc(c.rows(p.Now()), func(row []string) bool { return row[1] == "" })
	if err := cli.Table(p.Out, rows); err != nil {
		return err
	}
	if err := printScopes(p, m.Credentials().Scopes); err != nil {
		return err
	}
	if c.list {
		if err := printFiles(p, c.Files); err != nil {
			return err
		}
	}
	for _, w := range c.Warnings {
		fmt.Fprintln(p.Err, "warning:", cli.Clean(w))
	}
	return nil
}

// rows describe the bundle in a table. Those without a value are not printed.
func (c *contents) rows(now time.Time) [][]string {
	m, r, h := c.manifest, c.result, c.manifest.Harness()
	share, budget := "", ""
	if r.CompletionPercentage > 0 {
		share = strconv.FormatFloat(r.CompletionPercentage, 'f', -1, 64) + " %"
	}
	if h.ContextBudgetHint != 0 {
		budget = strconv.FormatFloat(h.ContextBudgetHint*100, 'f', -1, 32) + " % of the context"
	}
	deadline := string(m.ExpiresAt())
	if at, err := m.ExpiresAt().Time(); err == nil && !now.Before(at) {
		deadline += " (expired)"
	}
	by := m.Publisher().Name
	if tool := m.Publisher().Tool; tool != "" {
		by = strings.TrimSpace(by + " (with " + tool + ")")
	}
	hash, size, tokens := "", "", ""
	if c.Size > 0 {
		hash, size = c.Hash.String(), fmt.Sprintf("%d bytes, %s", c.Size, c.Compression)
	}
	if n := m.Compression().ContextTokensEstimate; n > 0 {
		tokens = fmt.Sprintf("about %d", n)
	}
	rows := [][]string{
		{"type", fmt.Sprintf("%s (version %s)", m.BundleType(), m.Version())},
		{"id", m.ID()}, {"answers", m.RequestID()}, {"part of", m.ParentID()}, {"hash", hash}, {"size", size},
		{"created", string(m.CreatedAt())}, {"expires", deadline},
		{"result", joined(r.Status, share)}, {"summary", r.Summary}, {"completed", string(r.CompletedAt)},
		{"deliverer", joined(r.Deliverer.Name, r.Deliverer.Tool, r.Deliverer.Model)},
		{"priority", m.Task().Priority}, {"effort", m.Task().EstimatedEffort}, {"publisher", by},
		{"skills", strings.Join(m.Tags().SkillsRequired, ", ")}, {"domains", strings.Join(m.Tags().Domains, ", ")},
		{"harness", joined(h.AgentTypeHint, h.ExecutionStrategy, budget)},
		{"tokens", tokens}, {"status", m.Completeness().Status},
		{"extensions", strings.Join(slices.Sorted(maps.Keys(m.Extensions())), ", ")},
	}
	label := "constraints"
	for _, text := range h.Constraints {
		rows = append(rows, []string{label, text})
		label = ""
	}
	total, matching := int64(0), 0
	for _, f := range c.Files {
		total += f.Size
		if f.Matches {
			matching++
		}
	}
	files, hidden := fmt.Sprintf("%s, %d bytes", cli.Count(len(c.Files), "file", "files"), total), ""
	if len(c.Files) > 0 {
		files += fmt.Sprintf(", %d with a hash that matches", matching)
	}
	if n := len(c.Hidden); n > 0 {
		hidden = cli.Count(n, "commitment", "commitments")
	}
	return append(rows, []string{"files", files}, []string{"hidden tests", hidden})
}

func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), ", ")
}

// printScopes lists the credentials of a manifest, which has no values.
func printScopes(p *host.Program, scopes []nutshell.Scope) error {
	if len(scopes) == 0 {
		return nil
	}
	rows := [][]string{{"CREDENTIAL", "TYPE", "ACCESS", "EXPIRES"}}
	for _, s := range scopes {
		expires := cmp.Or(string(s.ExpiresAt), "not said")
		if at, err := s.ExpiresAt.Time(); err == nil {
			expires = credential.Until(at, p.Now())
		}
		rows = append(rows, []string{s.Name, s.Type, joined(s.AccessLevel, s.RateLimit), expires})
	}
	fmt.Fprintln(p.Out)
	return cli.Table(p.Out, rows)
}

func printFiles(p *host.Program, files []inspectedFile) error {
	if len(files) == 0 {
		return nil
	}
	rows := [][]string{{"", "SIZE", "ROLE", "FILE"}}
	for _, f := range files {
		mark := "-"
		if f.Matches {
			mark = "✓"
		} else if f.Listed {
			mark = "✗"
		}
		rows = append(rows, []string{mark, strconv.FormatInt(f.Size, 10), f.Role, f.Path})
	}
	fmt.Fprintln(p.Out)
	return cli.Table(p.Out, rows)
}
