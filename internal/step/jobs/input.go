package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nip90"
	"guild/nutshell"
)

// Bounds on the inputs of a job beside its bundle.
const (
	maxInputs    = 16
	maxInputText = nip90.Inline // bytes of all texts together
	maxMarker    = 64           // bytes
)

// blobScheme begins the data of an input that is a blob of this node.
const blobScheme = "blob:"

// checkInputs returns what is wrong with an order's inputs.
func (j *Jobs) checkInputs(o Order) (faults Faults) {
	if len(o.Inputs) > maxInputs {
		return Faults{{"input", fmt.Sprintf("%d times: at most %d", len(o.Inputs), maxInputs)}}
	}
	text := 0
	for i, in := range o.Inputs {
		if err := j.checkInput(o, in); err != nil {
			faults = append(faults, Fault{"input", fmt.Sprintf("%d: %v", i+1, err)})
		}
		if in.Type == "text" {
			text += len(in.Data)
		}
	}
	if text > maxInputText {
		faults = append(faults, Fault{"input", fmt.Sprintf("texts of %d bytes: at most %d; put them into the bundle", text, maxInputText)})
	}
	return faults
}

func (j *Jobs) checkInput(o Order, in fact.Input) error {
	switch {
	case in.Relay != "" && !nip90.IsRelay(in.Relay):
		return fmt.Errorf("%.80q is not a relay URL", in.Relay)
	case in.Marker == nip90.MarkerBundle || in.Marker == nip90.MarkerBenchmark:
		return fmt.Errorf("the marker %q is reserved", in.Marker)
	case len(in.Marker) > maxMarker || nip90.IsRelay(in.Marker) || guild.Clean(in.Marker) != in.Marker:
		return fmt.Errorf("%.80q is not a marker", in.Marker)
	}
	switch in.Type {
	case "text":
		if in.Data == "" || !utf8.ValidString(in.Data) {
			return errors.New("no text")
		}
		return nil
	case "url":
		return j.checkURL(o, in.Data)
	case "event":
		if _, err := nostr.IDFromHex(in.Data); err != nil {
			return fmt.Errorf("%.80q is not an event id: want 64 hex digits", in.Data)
		}
		return nil
	case "job":
		return j.checkEarlier(o, in.Data)
	}
	return fmt.Errorf("type %.20q: want url, event, job or text", in.Type)
}

func (j *Jobs) checkURL(o Order, data string) error {
	digits, isBlob := strings.CutPrefix(data, blobScheme)
	switch {
	case !isBlob && !nip90.IsWebURL(data):
		return fmt.Errorf("%.80q is not a web URL", data)
	case !isBlob:
		return nil
	}
	hash, err := guild.ParseHash(digits)
	switch {
	case err != nil:
		return err
	case !j.c.Blobs.Has(hash):
		return fmt.Errorf("the blob %s is not here: name a Blossom server that has it, as blob:https://server/HASH", hash)
	case o.Private:
		return fmt.Errorf("the blob %s would go to a server in clear, and the job is private: put it into the bundle", hash)
	}
	return nil
}

// checkEarlier checks the job that an order builds on. It need not be accepted yet: the new job waits for it.
func (j *Jobs) checkEarlier(o Order, data string) error {
	if _, err := nostr.IDFromHex(data); err == nil {
		return nil
	}
	id, err := guild.ParseJobID(data)
	if err != nil {
		return fmt.Errorf("%.80q is not a job: want the 64 hex digits of a request, or the 32 of a job of this node", data)
	}
	earlier, ok := j.fold.Job(id)
	switch {
	case !ok:
		return fmt.Errorf("there is no job %s", id)
	case earlier.Shredded != 0:
		return fmt.Errorf("job %s is shredded: its work is gone", id.Short())
	case earlier.Private && !o.Private:
		return fmt.Errorf("job %s is private, and this one builds on it: make it private too", id.Short())
	}
	return nil
}

// earlier lists the jobs of ours that a job builds on.
func (j *Job) earlier() []guild.JobID {
	var ids []guild.JobID
	for _, in := range j.Inputs {
		if id, err := guild.ParseJobID(in.Data); err == nil && in.Type == "job" {
			ids = append(ids, id)
		}
	}
	return ids
}

// dueForInputs returns what is due for a job because of the jobs that it builds on: it waits for their end, and ends itself
// if one of them was not accepted. waits is false once all were accepted.
func (j *Jobs) dueForInputs(job *Job) (work due.Work, waits bool) {
	if job.Ending != guild.Open || job.Cancelled || len(job.Attempts) > 0 {
		return due.Work{}, false
	}
	for _, id := range job.earlier() {
		earlier, ok := j.fold.Job(id)
		switch {
		case !ok:
			return j.endBefore(job, time.Time{}, guild.JobUnclaimed, fmt.Sprintf("it builds on job %s, which is not known", id.Short())), true
		case earlier.Ending == guild.Open && !waits:
			waits = true
			work = j.endBefore(job, job.deadline(), guild.JobTimedOut, fmt.Sprintf("the deadline passed before job %s was done, on which it builds", id.Short()))
		case earlier.Ending != guild.Open && earlier.Ending != guild.JobAccepted:
			return j.endBefore(job, time.Time{}, guild.JobUnclaimed, fmt.Sprintf("it builds on job %s, which is %s", id.Short(), earlier.Ending)), true
		}
	}
	return work, waits
}

// endBefore ends a job before a provider was asked.
func (j *Jobs) endBefore(job *Job, ready time.Time, ending guild.Ending, reason string) due.Work {
	return due.Decide("close "+job.Job.String(), fact.JobSubject(job.Job), ready, func(tx *journal.Tx) error {
		return j.decideClose(tx, job, ending, reason)
	})
}

// attachInputs adds the job's inputs to the request in the form of NIP-90, and returns the bytes of text among them.
func (j *Jobs) attachInputs(ctx context.Context, job *Job, o guild.Offer, r *nip90.Request, up *uploads) (written int, err error) {
	for i, in := range job.Inputs {
		resolved, err := j.resolve(ctx, job, o, in, maxInputText-written)
		if err != nil {
			return 0, fmt.Errorf("input %d of job %s: %w", i+1, job.Job.Short(), err)
		}
		if strings.HasPrefix(in.Data, blobScheme) && in.Type == "url" {
			if resolved, err = j.uploadBlob(ctx, resolved, r, up); err != nil {
				return 0, fmt.Errorf("input %d of job %s: %w", i+1, job.Job.Short(), err)
			}
		}
		r.Inputs = append(r.Inputs, resolved)
		if resolved.Type == "text" {
			written += len(resolved.Data)
		}
	}
	return written, nil
}

// resolve turns an input that names something of this node into one that any provider can read. The request has room for
// so many bytes of text.
func (j *Jobs) resolve(ctx context.Context, job *Job, o guild.Offer, in fact.Input, room int) (nip90.Input, error) {
	out := nip90.Input{Data: in.Data, Type: in.Type, Relay: in.Relay, Marker: in.Marker}
	if in.Type != "job" {
		return out, nil
	}
	if id, err := nostr.IDFromHex(in.Data); err == nil {
		if _, _, ours := j.fold.Attempt(id); ours && out.Relay == "" {
			out.Relay = j.home()
		}
		return out, nil
	}
	id, err := guild.ParseJobID(in.Data)
	if err != nil {
		return out, err
	}
	earlier, ok := j.fold.Job(id)
	if !ok {
		return out, fmt.Errorf("there is no job %s", id.Short())
	}
	a, ok := earlier.outcome()
	switch {
	case !ok:
		return out, fmt.Errorf("job %s is %s", id.Short(), earlier.Ending)
	case a.Encrypted:
		return j.enclose(ctx, o, a, out, room)
	}
	out.Data, out.Relay = a.ID.Hex(), j.home()
	return out, nil
}

// home returns a relay that has the answers to our requests: the first one that they ask for.
func (j *Jobs) home() string {
	if relays := j.c.Network.Relays(); len(relays) > 0 {
		return relays[0]
	}
	return ""
}

// outcome returns the attempt whose delivery is the job's.
func (j *Job) outcome() (Attempt, bool) {
	if i := j.index(j.Chosen); i >= 0 {
		return j.Attempts[i], true
	}
	if all := j.successes(); len(all) > 0 {
		return all[0], true
	}
	return Attempt{}, false
}

// uploadBlob uploads a blob of this node, and returns it as an input by its URL, which ends in its hash.
func (j *Jobs) uploadBlob(ctx context.Context, out nip90.Input, r *nip90.Request, up *uploads) (nip90.Input, error) {
	hash, err := guild.ParseHash(strings.TrimPrefix(out.Data, blobScheme))
	if err != nil {
		return out, err
	}
	b, err := j.c.Blobs.ReadAll(hash, maxDelivery)
	if err != nil {
		return out, fmt.Errorf("the blob %s: %w", hash, err)
	}
	if out.Data, _, err = j.c.Upload(ctx, b, false); err != nil {
		return out, fmt.Errorf("upload the blob %s: %w", hash, err)
	}
	return out, j.describeFile(ctx, r, fileAt(out.Data, b), up)
}

// fileAt returns the metadata of a file that was uploaded in clear.
func fileAt(url string, content []byte) nip90.File {
	return nip90.File{URL: url, MIME: http.DetectContentType(content), Hash: guild.Sum(content), Size: int64(len(content))}
}

// enclose puts the result of an encrypted attempt into the input, because on the relays only we can read it.
func (j *Jobs) enclose(ctx context.Context, o guild.Offer, a Attempt, out nip90.Input, room int) (nip90.Input, error) {
	if o.Plain {
		return j.encloseText(a, out, room)
	}
	const wrapping = 512 // bytes around the base64 of the delivery
	p, err := j.pack(ctx, a.Delivery, a.Size, o.Encrypts, (room-wrapping)/4*3)
	if err != nil {
		return out, fmt.Errorf("the delivery of %.8s: %w", a.ID.Hex(), err)
	}
	if out.Data, err = p.Encode(); err != nil {
		return out, err
	}
	out.Type, out.Relay = "text", ""
	if out.Marker != "" {
		out.Marker = nip90.MarkerJob + ":" + out.Marker
	} else {
		out.Marker = nip90.MarkerJob
	}
	return out, nil
}

// encloseText puts the text of an encrypted result into the input of a plain request: the only artifact of the delivery.
func (j *Jobs) encloseText(a Attempt, out nip90.Input, room int) (nip90.Input, error) {
	raw, err := j.c.Blobs.ReadAll(a.Delivery, maxDelivery)
	if err != nil {
		return out, fmt.Errorf("the delivery of %.8s: %w", a.ID.Hex(), err)
	}
	b, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
	if err != nil {
		return out, fmt.Errorf("the delivery of %.8s: %w", a.ID.Hex(), err)
	}
	var artifacts []string
	for _, e := range b.Files() {
		if strings.HasPrefix(e.Path, nutshell.ArtifactsDir+"/") {
			artifacts = append(artifacts, e.Path)
		}
	}
	if len(artifacts) != 1 {
		return out, lostError{fmt.Errorf("the delivery of %.8s has %d files, and the provider reads no bundles", a.ID.Hex(), len(artifacts))}
	}
	text, err := b.ReadFile(artifacts[0])
	if err != nil || len(text) > room || !utf8.Valid(text) {
		return out, lostError{fmt.Errorf("the delivery of %.8s is not a text of at most %d bytes, and the provider reads no bundles", a.ID.Hex(), room)}
	}
	out.Data, out.Type, out.Relay = string(text), "text", ""
	return out, nil
}
