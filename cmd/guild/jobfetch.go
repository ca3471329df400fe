package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/hand/workdir"
	"guild/internal/nut/project"
	"guild/nutshell"
)

type fetchOptions struct {
	Dir      string
	Attempt  string
	Rejected bool
	Again    bool // a directory that has the delivered files already is taken as it is
}

func (p *program) jobFetchCommand() *cobra.Command {
	var o fetchOptions
	cmd := p.local(&cobra.Command{
		Use:   "fetch JOB",
		Short: "Write the delivered files of a job",
		Long: `fetch writes the delivered files into a new directory: those of the accepted
delivery, or of the chosen one of several. The directory must be empty or not
exist. It is written whole or not at all. Without --to it is named after the
job, in the current directory. It asks the running node, or reads the journal of
a stopped one.

A delivery that was not accepted is only written with --rejected: the latest
one, or that of --attempt. It may be wrong, or malicious. A directory .git is
never written, because git runs programs that are named there.

JOB is a job's id or the beginning of one.`,
		Example: "  guild job fetch 5f21c9aa --to work\n  guild job fetch 5f21c9aa --rejected --json | jq -r '.files[].path'",
	}, func(cmd *cobra.Command, args []string) (result *cli.Result, err error) {
		err = p.reading(cmd.Context(), func(client *control.Client, _ bool) error {
			result, err = p.runJobFetch(cmd.Context(), client, args[0], o)
			return err
		})
		return result, err
	})
	flags := cmd.Flags()
	flags.StringVar(&o.Dir, "to", "", "directory to make (default: the beginning of the job's id)")
	o.workFlags(cmd)
	return cmd
}

// fetched is the JSON that job fetch prints.
type fetched struct {
	Job      string        `json:"job"`
	Attempt  string        `json:"attempt"`
	Provider string        `json:"provider"` // npub
	State    string        `json:"state"`    // of the attempt: accepted, rejected, …
	Dir      string        `json:"dir"`
	Files    []fetchedFile `json:"files"`
	LeftOut  []string      `json:"left_out,omitempty"` // paths that are never written

	again bool
}

// fetchedFile is a file that was written.
type fetchedFile struct {
	Path   string `json:"path"` // below the directory
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex
}

func (p *program) runJobFetch(ctx context.Context, client *control.Client, id string, o fetchOptions) (*cli.Result, error) {
	job, err := control.OneJob.Call(ctx, client, id)
	if err != nil {
		return nil, err
	}
	a, err := deliveryOf(job, o)
	if err != nil {
		return nil, err
	}
	packed, err := control.Delivery.Call(ctx, client, job.ID, a.ID)
	if err != nil {
		return nil, err
	}
	made := fetched{Job: job.ID, Attempt: a.ID, Provider: a.Npub, State: a.State, Dir: o.Dir, again: o.Again}
	if made.Dir == "" {
		made.Dir = short(job.ID)
	}
	if err := made.write(ctx, packed); err != nil {
		return nil, err
	}
	p.warnOfFetched(job, a, made)
	return &cli.Result{JSON: made, Show: func() error { return p.showFetched(a, made) }}, nil
}

// deliveryOf returns the attempt of a job whose delivery is fetched.
func deliveryOf(job control.Job, o fetchOptions) (control.Attempt, error) {
	hint := "guild job show " + short(job.ID) + " tells how it stands"
	var found []control.Attempt
	for _, a := range job.Attempts {
		if a.Delivery != "" && strings.HasPrefix(a.ID, strings.ToLower(o.Attempt)) {
			found = append(found, a)
		}
	}
	if len(found) == 0 && o.Attempt != "" {
		return control.Attempt{}, cli.WithHint(fmt.Errorf("job %s has no delivery of an attempt %s", short(job.ID), cli.Clean(o.Attempt)), hint)
	}
	if len(found) == 0 {
		return control.Attempt{}, cli.WithHint(fmt.Errorf("nothing was delivered for job %s: %s", short(job.ID), cli.Clean(summary(job))), hint)
	}
	if o.Attempt != "" && len(found) > 1 {
		return control.Attempt{}, cli.WithHint(fmt.Errorf("%d attempts begin with %s", len(found), o.Attempt), hint)
	}
	if i := slices.IndexFunc(found, func(a control.Attempt) bool { return o.Attempt == "" && a.ID == job.Chosen && isAccepted(job, a) }); i >= 0 {
		return found[i], nil
	}
	if i := slices.IndexFunc(found, func(a control.Attempt) bool { return isAccepted(job, a) }); i >= 0 {
		return found[i], nil
	}
	last := found[len(found)-1]
	if !o.Rejected {
		err := fmt.Errorf("no delivery of job %s was accepted: attempt %s by %s is %s", short(job.ID), short(last.ID), cli.Clean(nameOf(last)), standing(job, last))
		return control.Attempt{}, cli.WithHint(err, "--rejected writes it all the same; guild judge explain "+short(job.ID)+" says what was found")
	}
	return last, nil
}

// isAccepted reports whether a delivery may be used: it was accepted, and so was the job. Where several must agree, a
// delivery that passed its tests is not enough.
func isAccepted(job control.Job, a control.Attempt) bool {
	return job.Ending == guild.JobAccepted && a.State == string(guild.Accepted)
}

// standing returns the state of a delivery, and the reason.
func standing(job control.Job, a control.Attempt) string {
	text := a.State
	if v := a.Verdict; v != nil {
		text += fmt.Sprintf(" (%s, %d of %d passed)", v.Outcome, v.Passed, v.Expected)
	}
	if a.Reason != "" {
		text += ": " + cli.Clean(a.Reason)
	}
	if a.State == string(guild.Accepted) {
		text += ", and the job " + endingWord(job.Ending)
	}
	return text
}

// write unpacks a delivery and lists its files. If again is set, it leaves a directory that has files of these names as it is.
func (m *fetched) write(ctx context.Context, packed []byte) error {
	b, err := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), nutshell.DefaultLimits())
	if err != nil {
		return fmt.Errorf("the delivery of attempt %s: %w", short(m.Attempt), err)
	}
	m.Files = []fetchedFile{}
	var names []string
	for _, e := range b.Files() {
		if name, inside := strings.CutPrefix(e.Path, nutshell.ArtifactsDir+"/"); inside {
			names = append(names, name)
		}
	}
	versioned := nutshell.VersionControl(names)
	for _, e := range b.Files() {
		name, inside := strings.CutPrefix(e.Path, nutshell.ArtifactsDir+"/")
		switch {
		case !inside:
		case versioned(name):
			m.LeftOut = append(m.LeftOut, name)
		default:
			m.Files = append(m.Files, fetchedFile{Path: name, Size: e.Size, SHA256: e.Hash.Hex()})
		}
	}
	if m.again && m.isThere() {
		return nil
	}
	if len(m.Files) == 0 {
		return fmt.Errorf("the delivery of attempt %s has no files to write", short(m.Attempt))
	}
	err = workdir.UnpackSome(ctx, b, m.Dir, func(name string) (string, bool) {
		name, inside := strings.CutPrefix(name, nutshell.ArtifactsDir+"/")
		return name, inside && !versioned(name)
	})
	for _, taken := range []error{syscall.ENOTEMPTY, syscall.EEXIST, syscall.ENOTDIR, syscall.ELOOP} {
		if errors.Is(err, taken) {
			return cli.WithHint(fmt.Errorf("%s: %w", m.Dir, err), "it is left as it is: choose another directory with --to")
		}
	}
	return err
}

// isThere reports whether the directory has all delivered files, by their names: its owner may have changed them.
func (m *fetched) isThere() bool {
	root, err := os.OpenRoot(m.Dir)
	if err != nil {
		return false
	}
	defer root.Close()
	for _, f := range m.Files {
		if info, err := root.Lstat(f.Path); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return len(m.Files) > 0
}

// warnOfFetched warns of what is risky in files that were written.
func (p *program) warnOfFetched(job control.Job, a control.Attempt, made fetched) {
	if !isAccepted(job, a) {
		fmt.Fprintf(p.err, "warning: this delivery was not accepted: it is %s\n", standing(job, a))
	}
	if len(made.LeftOut) > 0 {
		fmt.Fprintf(p.err, "warning: left out, since git runs what is there: %s\n", cli.Cut(cli.Clean(strings.Join(made.LeftOut, ", ")), 200))
	}
	for _, f := range made.Files {
		if kind := project.RunsItself(f.Path); kind != "" {
			fmt.Fprintf(p.err, "look at this first: %s: %s\n", cli.Clean(f.Path), kind)
		}
	}
}

func (p *program) showFetched(a control.Attempt, made fetched) error {
	var size int64
	for _, f := range made.Files {
		size += f.Size
		fmt.Fprintf(p.out, "%s  %s\n", cli.Clean(filepath.Join(made.Dir, f.Path)), cli.Size(f.Size))
	}
	_, err := fmt.Fprintf(p.out, "%s, %s, %s by %s (attempt %s)\n", cli.Count(len(made.Files), "file", "files"), cli.Size(size),
		made.State, cli.Clean(nameOf(a)), short(a.ID))
	return err
}
