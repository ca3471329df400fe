package jobs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
	"guild/nutshell"
)

// maxPlainFiles limits the files of a bundle that are sent as inputs of a plain request.
const maxPlainFiles = 16

// plainTask is the part of a bundle that a provider gets that reads none: the requirements, with the file that is asked for,
// and the files to work with. The tests, the criteria and the credentials are left out.
type plainTask struct {
	text  string
	files []plainFile
}

type plainFile struct {
	name    string
	content []byte
	isText  bool
}

// plainTaskOf reads the plain form of a packed bundle.
func plainTaskOf(bundle []byte) (task plainTask, err error) {
	b, err := nutshell.Open(bytes.NewReader(bundle), int64(len(bundle)), nutshell.DefaultLimits())
	if err != nil {
		return task, err
	}
	m := b.Manifest()
	requirements := m.Context().Requirements
	if text, err := b.ReadFile(requirements); err == nil {
		task.text = strings.TrimSpace(guild.Clean(string(text)))
	}
	if task.text == "" {
		task.text = strings.TrimSpace(guild.Clean(m.Task().Title + "\n\n" + m.Task().Summary))
	}
	if file := fileAsked(b); file != "" {
		task.text += "\n\n" + instruction(file)
	}
	for _, entry := range b.Files() {
		if entry.Path == requirements || !isMaterial(m, entry.Path) {
			continue
		}
		if len(task.files) == maxPlainFiles {
			return task, fmt.Errorf("the task has more than %d files", maxPlainFiles)
		}
		content, err := b.ReadFile(entry.Path)
		if err != nil {
			return task, err
		}
		isText := len(content) > 0 && utf8.Valid(content) && guild.Clean(string(content)) == string(content)
		task.files = append(task.files, plainFile{name: entry.Path, content: content, isText: isText})
	}
	return task, nil
}

// isMaterial reports whether a file of a bundle is to be worked with, and does not describe, test or unlock anything.
func isMaterial(m *nutshell.Manifest, name string) bool {
	switch {
	case name == nutshell.ManifestFile, name == nutshell.CriteriaFile, name == m.Acceptance().CriteriaFile, name == m.APIs().EndpointsSpec:
		return false
	case nutshell.IsHidden(name), m.HoldsCredentials(name), slices.Contains(m.Acceptance().TestScripts, name):
		return false
	case strings.HasPrefix(name, "tests/"), strings.HasPrefix(name, "credentials/"), strings.HasPrefix(path.Base(name), "."):
		return false
	}
	return true
}

// inlineText returns how many bytes of a task fit into an event, beside so many others.
func inlineText(beside int) int { return max(nip90.Inline-beside, 0) }

// question holds the properties of a job that decide the answer of unplain.
type question struct {
	bundle  guild.Hash
	private bool
}

// unplain returns why a job cannot be sent to a provider that reads no bundles, or "". It reads a bundle once, because it
// is asked for each such provider.
func (j *Jobs) unplain(job *Job) string {
	j.plainly.Lock()
	defer j.plainly.Unlock()
	q := question{job.Bundle, job.Private}
	why, known := j.unplains[q]
	if known {
		return why
	}
	bundle, err := j.bundleOf(job)
	if err != nil {
		return err.Error() // perhaps it can be read the next time
	}
	task, err := plainTaskOf(bundle)
	switch {
	case err != nil:
		why = err.Error()
	case job.Private && !task.fits():
		why = "the files do not fit into an encrypted request"
	}
	if len(j.unplains) >= maxUnplains {
		clear(j.unplains)
	}
	j.unplains[q] = why
	return why
}

// maxUnplains limits the answers of unplain that are remembered.
const maxUnplains = 1000

// fits reports whether a task can be sent without an upload.
func (t plainTask) fits() bool {
	size := len(t.text)
	for _, f := range t.files {
		if !f.isText {
			return false
		}
		size += len(f.content)
	}
	return size <= inlineText(0)
}

func (j *Jobs) bundleOf(job *Job) ([]byte, error) {
	bundle, err := j.c.Blobs.ReadAll(job.Bundle, job.Size)
	if err != nil {
		return nil, fmt.Errorf("the bundle of job %s: %w", job.Job.Short(), err)
	}
	return bundle, nil
}

// carryPlain signs the request of a job for a provider that reads no bundles (NIP-90). Its first input has the
// requirements, and each file of the bundle is one more. A file that is no text or does not fit into the event is uploaded in
// clear, because the provider could not decrypt it.
func (j *Jobs) carryPlain(ctx context.Context, job *Job, o guild.Offer, r nip90.Request, beside int, up *uploads) (nostr.Event, guild.Hash, error) {
	bundle, err := j.bundleOf(job)
	if err != nil {
		return nostr.Event{}, guild.Hash{}, err
	}
	task, err := plainTaskOf(bundle)
	if err != nil {
		return nostr.Event{}, guild.Hash{}, err
	}
	if job.Private && !task.fits() {
		return nostr.Event{}, guild.Hash{}, fmt.Errorf("job %s is private, and its files do not fit into the request", job.Job.Short())
	}
	r.Content, r.Output = "", "text/plain"
	r.Unset(nip90.ParamBundleSize)
	if job.Meeting == nil {
		r.Set(nip90.ParamTimeLimit, strconv.Itoa(job.seconds())) // others read it as the time for the job
	}
	room := inlineText(beside)
	inputs := make([]nip90.Input, 0, 1+len(task.files)+len(r.Inputs))
	first := plainFile{content: []byte(cmp.Or(task.text, job.Title, job.Task)), isText: true}
	for _, f := range append([]plainFile{first}, task.files...) {
		in := nip90.Input{Data: string(f.content), Type: "text", Marker: f.name}
		if !f.isText || len(f.content) > room {
			in.Type = "url"
			if in.Data, _, err = j.c.Upload(ctx, f.content, false); err != nil {
				return nostr.Event{}, guild.Hash{}, fmt.Errorf("upload %s: %w", cmp.Or(f.name, "the requirements"), err)
			}
			if err := j.describeFile(ctx, &r, fileAt(in.Data, f.content), up); err != nil {
				return nostr.Event{}, guild.Hash{}, err
			}
		} else {
			room -= len(f.content)
		}
		inputs = append(inputs, in)
	}
	r.Inputs = append(inputs, r.Inputs...)
	if r.Kind == nip90.KindTool && o.Tool != "" {
		r.CallTool(o.Tool, o.ToolText, string(first.content))
	}
	hash, err := r.JobHash()
	if err != nil {
		return nostr.Event{}, guild.Hash{}, err
	}
	r.Set(nip90.ParamJobHash, hash.Hex())
	e, err := j.seal(ctx, r, *r.Provider, o.Encrypts)
	if err != nil {
		return nostr.Event{}, guild.Hash{}, err
	}
	e, err = j.outbox.Sign(ctx, e)
	return e, hash, err
}
