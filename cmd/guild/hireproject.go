package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/durable"
	"guild/internal/hand/git"
	"guild/internal/judging/exam"
	"guild/internal/nut/host"
	"guild/internal/nut/project"
	"guild/internal/step/jobs"
	"guild/nutshell"
)

// projectOptions are the flags of hire for a project.
type projectOptions struct {
	Sentence string // what is to be done
	Test     string
	Hidden   []string
	Yes      bool
	DryRun   bool

	made *project.Made // the bundle that Source then is; nil if Source was one before
	dir  string        // of the project
}

// asProject makes the bundle of a project, if Source is one, and returns the options for that. done removes it.
func (p *program) asProject(ctx context.Context, o hireOptions) (hireOptions, func(), error) {
	nothing := func() {}
	info, err := os.Stat(o.Source)
	_, manifest := os.Lstat(filepath.Join(o.Source, nutshell.ManifestFile))
	if errors.Is(err, fs.ErrNotExist) && o.Type == "" {
		return o, nothing, cli.WithHint(cli.Usage(err), "name the directory of a project or of a bundle, or a .nut file")
	}
	isProject := o.Type == "" && err == nil && info.IsDir() && errors.Is(manifest, fs.ErrNotExist)
	if !isProject {
		if o.Sentence != "" || o.Test != "" || len(o.Hidden) > 0 {
			err := fmt.Errorf("%s is not a project: it says itself what is to be done and how it is tested", o.Source)
			return o, nothing, cli.WithHint(cli.Usage(err), "a project is a directory without a nutshell.json")
		}
		return o, nothing, nil
	}
	if strings.TrimSpace(o.Sentence) == "" {
		_, _, err := packBundle(ctx, o.Source, nil)
		return o, nothing, err
	}
	if o.asJSON && !o.Yes && !o.DryRun {
		return o, nothing, errUnasked
	}
	to, err := os.MkdirTemp("", "guild-project-")
	if err != nil {
		return o, nothing, err
	}
	done := func() { os.RemoveAll(to) }
	made, err := project.Make(ctx, project.Wish{Dir: o.Source, Sentence: o.Sentence, Test: o.Test, Hidden: o.Hidden, Task: o.Task}, to)
	if err != nil {
		done()
		return o, nothing, cli.WithHint(cli.Usage(fmt.Errorf("%s: %w", o.Source, err)), projectHint(err))
	}
	if made.Task == "" {
		done()
		err := fmt.Errorf("%s: which task is it?", o.Source)
		return o, nothing, cli.WithHint(cli.Usage(err), "name the language or another word that providers offer with --task; guild market ls lists them")
	}
	o.dir, o.Source, o.made = o.Source, to, &made
	return o, done, nil
}

// projectHint returns what to do about a project that no bundle could be made of.
func projectHint(err error) string {
	if missing, ok := errors.AsType[*project.PathError](err); ok && missing.Untracked {
		return "only committed files are sent: git add " + missing.Path + ", and commit it"
	}
	switch {
	case errors.Is(err, project.ErrNoTests):
		return "--test 'COMMAND' says how the work is tested; what cannot be tested is not sent"
	case errors.Is(err, git.ErrUnborn):
		return "only committed files are sent: git add and git commit them"
	}
	return ""
}

// fixHint says what to do about criteria that cannot be run.
func (o hireOptions) fixHint() string {
	if o.made != nil {
		return "correct the tests, or install what they need; --test names another command"
	}
	return "correct the bundle: guild nut check says what it lacks"
}

// unfitHint says what to do about tests that show nothing.
func (o hireOptions) unfitHint() string {
	show := "guild judge vet shows each test"
	if o.made != nil {
		show = "--dry-run --unvetted writes the bundle, of which guild judge vet shows each test"
		if len(o.made.Changed)+len(o.made.Untracked) > 0 {
			show = "only committed tests count, and not " + o.uncommitted() + "; " + show
		}
	}
	return show + "; --keep-green if the work must only not break them, --unvetted sends it all the same"
}

// uncommitted counts what is left out because it is not committed.
func (o hireOptions) uncommitted() string {
	var parts []string
	if n := len(o.made.Changed); n > 0 {
		parts = append(parts, "what changed in "+cli.Count(n, "file", "files"))
	}
	if n := len(o.made.Untracked); n > 0 {
		parts = append(parts, cli.Count(n, "untracked file", "untracked files"))
	}
	return strings.Join(parts, " and ")
}

// salts returns the salts of the commitments to hidden tests. They are the same for the same tests, so that a hire that is
// repeated has the same bundle, and nobody else can compute them: they are made with a key of this home.
func (p *program) salts(hidden guild.Hash) (io.Reader, error) {
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.Paths.State, "hires")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "salts.key")
	key := make([]byte, sha256.Size)
	rand.Read(key)
	if err := durable.Create(file, key); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if key, err = os.ReadFile(file); err != nil {
		return nil, err
	}
	if len(key) != sha256.Size {
		return nil, cli.WithHint(fmt.Errorf("%s: %d bytes, not %d", file, len(key), sha256.Size), "remove this file: a new one is made")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(hidden[:])
	return mathrand.NewChaCha8([32]byte(mac.Sum(nil))), nil
}

// dryRun writes the bundle and says what hire would do with it.
func (p *program) dryRun(ctx context.Context, o hireOptions, l load) error {
	var vetted exam.Vetting
	if o.packed == nil && !o.Unvetted {
		var err error
		if vetted, err = p.vetBundle(ctx, o, l.bundle); err != nil {
			return err
		}
	}
	b, err := nutshell.Open(bytes.NewReader(l.bundle), int64(len(l.bundle)), nutshell.DefaultLimits())
	if err != nil {
		return cli.Usage(err)
	}
	file := o.Output
	if file == "" {
		file = host.Slug(b.Manifest().Task().Title, "task") + ".nut"
	}
	if err := writeNew(file, l.bundle); err != nil {
		return err
	}
	if o.asJSON {
		return cli.PrintJSON(p.out, dryRun{File: file, Size: len(l.bundle), Hash: guild.Sum(l.bundle).String(), Vetting: vetted})
	}
	if o.made != nil {
		p.showOffer(o, l, vetted, "", "")
	}
	_, err = fmt.Fprintf(p.out, "wrote      %s; nothing was sent\n", cli.Clean(file))
	return err
}

// dryRun is the JSON of hire --dry-run.
type dryRun struct {
	File    string       `json:"file"`
	Size    int          `json:"size"` // bytes
	Hash    string       `json:"hash"`
	Vetting exam.Vetting `json:"vetting"`
}

// writeNew writes a file that must not exist.
func writeNew(file string, content []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return cli.WithHint(fmt.Errorf("%s exists already", file), "choose another file with --output")
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// agree shows what is sent, to whom and for how much at most, and asks whether to send it. More than that is not bid.
func (p *program) agree(ctx context.Context, client *control.Client, fresh bool, o hireOptions, l load, v exam.Vetting) (hireOptions, error) {
	prospect, err := prospectOf(ctx, client, o, fresh)
	if err != nil {
		return o, err
	}
	if !o.asJSON {
		p.showOffer(o, l, v, recipients(o, prospect), highest(o, prospect))
	}
	if o.Bid == 0 && o.settlement() == nil {
		o.Most, o.Free = prospect.Most, prospect.Most == 0 || o.Free
	}
	if o.Yes {
		return o, nil
	}
	ask, err := p.nut().Asker(ctx)
	if err != nil {
		return o, errUnasked
	}
	yes, err := ask.Yes("Send it?")
	if err == nil && !yes {
		err = errors.New("nothing was sent")
	}
	return o, err
}

// errUnasked is the error of a hire for which nobody can be asked.
var errUnasked = cli.WithHint(cli.Usage(errors.New("nothing was sent: nobody can be asked whether to send it")),
	"--yes sends it; --dry-run only writes the bundle")

// A node that was just started listens for providers this long before the person is asked whether to send.
const hearing = 3 * time.Second

// prospectOf asks the node who could be asked. A fresh one gets some time to hear of providers.
func prospectOf(ctx context.Context, client *control.Client, o hireOptions, fresh bool) (control.Prospect, error) {
	until := time.Now().Add(hearing)
	for {
		known, err := control.OneProspect.Call(ctx, client, o.made.Task, o.Urgency, fmt.Sprint(o.Target))
		if err != nil || known.Providers > 0 || !fresh || len(o.Providers) > 0 || time.Now().After(until) {
			return known, err
		}
		select {
		case <-ctx.Done():
			return known, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// recipients says who is asked.
func recipients(o hireOptions, known control.Prospect) string {
	word := cli.Clean(o.made.Task)
	if len(o.Providers) > 0 {
		var names []string
		for _, name := range o.Providers {
			names = append(names, cli.Clean(name))
		}
		return strings.Join(names, ", then ")
	}
	if len(known.Names) == 0 {
		return "whoever offers " + word + "; nobody is known yet"
	}
	names := strings.Join(known.Names[:min(3, len(known.Names))], ", ")
	if more := known.Providers - min(3, len(known.Names)); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("whoever is chosen of those that offer %s: %s", word, cli.Clean(names))
}

// highest says how much is bid at most.
func highest(o hireOptions, known control.Prospect) string {
	most := guild.Msat(known.Most)
	if o.Bid > 0 {
		most = guild.Msat(o.Bid)
	}
	if o.Free {
		return "nothing"
	}
	if s := o.settlement(); s != nil && (s.How == jobs.Prepaid || s.How == jobs.Onchain) {
		return fmt.Sprintf("at most %d %s, which is paid before the work, whatever is delivered", s.Most, unitName(s.Unit))
	} else if s != nil && s.How == jobs.Postpaid {
		return fmt.Sprintf("at most %d %s, which is paid after the verdict", s.Most, unitName(s.Unit))
	} else if s != nil {
		return fmt.Sprintf("at most %d %s, which is locked until the verdict", s.Most, unitName(s.Unit))
	}
	if most == 0 {
		return "nothing, as nobody asks for more; --bid sets a limit"
	}
	text := "at most " + most.String()
	if n := guild.Criticality(o.Level).Replicas(); n > 1 {
		text = fmt.Sprintf("%s for each of %d", text, n)
	}
	if o.Bid == 0 {
		text += ", by what is asked and was paid before; --bid sets a limit"
	}
	return text
}

// offerColumns is the width of the text in an offer, so that it fits a terminal of 80 columns.
const offerColumns = 68

// showOffer prints what is sent. to and price are empty if nothing is.
func (p *program) showOffer(o hireOptions, l load, v exam.Vetting, to, price string) {
	m := o.made
	lines := func(name string, texts ...string) {
		for _, text := range texts {
			for line := range strings.Lines(lipgloss.Wrap(cli.Clean(text), offerColumns, "")) {
				fmt.Fprintf(p.out, "%-10s %s\n", name, strings.TrimRight(line, " \n"))
				name = ""
			}
		}
	}
	n := len(m.Files) + len(m.Tests)
	for _, skipped := range l.skipped {
		if skipped.Path != nutshell.HiddenDir {
			n--
		}
	}
	sends := cli.Count(n, "file", "files")
	if len(m.Tests) > 0 {
		sends += fmt.Sprintf(", %d of them tests", len(m.Tests))
	}
	sends += ", " + cli.Size(int64(len(l.bundle))) + " packed"
	if m.Commit != "" {
		sends += ", as committed in " + short(m.Commit)
	}
	lines("wanted", m.Title)
	lines("sends", sends, "without the tests, as plain text and files, to who reads no bundles")
	lines("keeps", o.kept(l)...)
	lines("judged by", judgedBy(m, v)...)
	if to != "" {
		lines("to", to)
		lines("for", price)
	}
}

// kept lists what is not sent.
func (o hireOptions) kept(l load) (lines []string) {
	m := o.made
	if n := len(m.Hidden); n > 0 {
		lines = append(lines, cli.Count(n, "file of hidden tests", "files of hidden tests")+", to which it is committed")
	}
	if len(m.Changed)+len(m.Untracked) > 0 {
		lines = append(lines, o.uncommitted()+", until you commit it")
	}
	const most = 8
	var others []nutshell.Skipped
	excluded := 0
	for _, s := range append(append([]nutshell.Skipped{}, m.LeftOut...), l.skipped...) {
		switch {
		case s.Path == nutshell.HiddenDir:
		case s.Reason == nutshell.ReasonExcluded:
			excluded++
		default:
			others = append(others, s)
		}
	}
	for _, s := range others[:min(most, len(others))] {
		lines = append(lines, strings.TrimPrefix(s.Path, "files/")+": "+s.Reason)
	}
	if n := len(others) - most; n > 0 {
		lines = append(lines, fmt.Sprintf("%d more like these", n))
	}
	if excluded > 0 {
		lines = append(lines, cli.Count(excluded, "file", "files")+" that .nutignore names")
	}
	return lines
}

// judgedBy says how the work is judged, and how strong a verdict can become.
func judgedBy(m *project.Made, v exam.Vetting) (lines []string) {
	by := m.Command
	if by == "" {
		by = "tests/criteria.json"
	}
	n := 0
	for _, c := range v.Criteria {
		n += len(c.Tests)
	}
	switch {
	case v.Strength == "":
		lines = append(lines, by+"; the tests were not vetted")
	default:
		lines = append(lines, fmt.Sprintf("%s, %s: a verdict can become %s", by, cli.Count(n, "test", "tests"), v.Strength))
	}
	if m.Weak != "" {
		lines = append(lines, "weak, and pays nothing by itself: "+m.Weak)
	}
	for _, c := range v.Criteria {
		if m.Weak == "" && c.Because != "" {
			lines = append(lines, c.ID+": "+c.Because)
		}
	}
	return lines
}
