package node

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/step/judge"
	"guild/internal/step/work"
	"guild/verify"
)

// The words of one job, each in another place. The other job says only kept.
const (
	inTitle    = "TITLE-hemlock-and-rue"
	inPrompt   = "PROMPT-hemlock-and-rue"
	inFile     = "FILE-hemlock-and-rue"
	inDelivery = "DELIVERY-hemlock-and-rue"
	inRefusal  = "REFUSAL-hemlock-and-rue"
	inEvidence = "EVIDENCE-hemlock-and-rue"
	inVerdict  = "VERDICT-hemlock-and-rue"
	kept       = "KEPT-words"
)

var marks = []string{inTitle, inPrompt, inFile, inDelivery, inRefusal, inEvidence, inVerdict}

func marked(t *testing.T, title, prompt, file string) []byte {
	return pack(t, fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-test",
			"task":{"title":"` + title + `","summary":"` + prompt + `"},"extensions":{"guild":{"task":"echo"}}}`)},
		"files/in.txt": {Data: []byte(file)},
	})
}

// texts returns what a file says: its bytes, and what is compressed or in base64 in them.
func texts(b []byte) (all [][]byte) {
	all = append(all, b)
	if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
		if plain, err := io.ReadAll(z); err == nil {
			all = append(all, plain)
		}
	}
	var run []byte
	for _, c := range append(b, 0) {
		if c == '+' || c == '/' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
			run = append(run, c)
			continue
		}
		if len(run) >= 32 {
			plain, err := base64.RawStdEncoding.DecodeString(string(run))
			if all = append(all, plain); err == nil && bytes.HasPrefix(plain, []byte{0x1f, 0x8b}) {
				all = append(all, texts(plain)[1:]...)
			}
		}
		run = run[:0]
	}
	return all
}

// wordsIn lists the files below a directory, and the marks in them.
func wordsIn(t *testing.T, dir string, marks ...string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, text := range texts(b) {
			for _, mark := range marks {
				if bytes.Contains(text, []byte(mark)) {
					found = append(found, filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))+": "+mark)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// runAgain runs a node with the data of before, and returns a client and the function that stops it.
func runAgain(t *testing.T, c Config) (*control.Client, func()) {
	t.Helper()
	ready := make(chan Ready, 1)
	c.Ready = func(r Ready) { ready <- r }
	stop := run(t, func(ctx context.Context) error { return Run(ctx, c) })
	select {
	case <-ready:
	case <-time.After(ample):
		t.Fatal("the node is not ready")
	}
	return control.Dial(c.Socket), stop
}

// stateIn reads the states in the snapshots of a stopped node, by fold. That of the chain has no order.
func stateIn(t *testing.T, c Config) map[string]string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(c.Dir, "journal", "snapshot", "*.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, path := range all { // in order: the newest of each fold stays
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if name != "journal" {
			states[name] = string(b[:len(b)-32])
		}
	}
	return states
}

// replayed makes the snapshots again from the entries alone.
func replayed(t *testing.T, c Config) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(c.Dir, "journal", "snapshot")); err != nil {
		t.Fatal(err)
	}
	n := &Node{c: c.withDefaults()}
	if err := n.openJournal(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := n.journal.Close(); err != nil {
		t.Fatal(err)
	}
}

// export exports the receipt of a job.
func export(t *testing.T, c *control.Client, job string) ([]byte, verify.Report) {
	t.Helper()
	packed, err := control.ReceiptExport.Call(t.Context(), c, job)
	if err != nil {
		t.Fatal(err)
	}
	return packed, verified(t, packed)
}

func verified(t *testing.T, packed []byte) verify.Report {
	t.Helper()
	report, err := verify.Archive(packed)
	if err != nil || !report.OK() {
		t.Fatalf("%s\n%v", states(report), err)
	}
	return report
}

func stateOf(r verify.Report, check string) verify.State {
	i := slices.IndexFunc(r.Checks, func(c verify.Check) bool { return c.Name == check })
	return r.Checks[i].State
}

func TestShreddedJobLeavesProofsWhole(t *testing.T) {
	for name, private := range map[string]bool{"in clear": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) { shredOne(t, private) })
	}
}

func shredOne(t *testing.T, private bool) {
	t.Parallel()
	url := startRelay(t)
	_, refuser := start(t, url, func(c *Config) {
		c.Workers = []Worker{{Task: "echo", Do: func(ctx context.Context, a work.Assignment) error {
			if b, err := os.ReadFile(filepath.Join(a.Bundle, "files", "in.txt")); err != nil || string(b) == kept {
				return errors.Join(err, echo(ctx, a))
			}
			return os.WriteFile(filepath.Join(a.Delivery, "result.json"), []byte(`{"status":"blocked","summary":"`+inRefusal+`"}`), 0o600)
		}}}
	})
	_, provider := start(t, url, func(c *Config) {
		c.Workers = []Worker{{Task: "echo", Do: func(ctx context.Context, a work.Assignment) error {
			b, err := os.ReadFile(filepath.Join(a.Bundle, "files", "in.txt"))
			if err == nil && string(b) != kept {
				b = []byte(inDelivery)
			}
			return errors.Join(err, os.WriteFile(filepath.Join(a.Delivery, "out.txt"), b, 0o600))
		}}}
	})
	secret := key.NewSecret(nostr.Generate())
	c := Config{
		Dir: t.TempDir(), Socket: socket(t), Identity: key.Identity{Signer: key.NewSigner(secret), PubKey: secret.PubKey()}, NoSync: true,
		Relays: []string{url}, Version: "test", Records: Records{Publish: true, SealEvery: time.Second}, Examine: remarking,
	}
	if err := journal.Init(filepath.Join(c.Dir, "journal")); err != nil {
		t.Fatal(err)
	}
	client, stop := runAgain(t, c)
	ask := control.Hire{Providers: []string{nip19.EncodeNpub(refuser), nip19.EncodeNpub(provider)}, Private: private}
	job := finish(t, client, open(t, client, marked(t, inTitle, inPrompt, inFile), ask))
	other := finish(t, client, open(t, client, marked(t, kept, kept, kept), control.Hire{Private: private}))
	if len(job.Attempts) != 2 || !strings.Contains(job.Attempts[0].Reason, inRefusal) {
		t.Fatalf("%+v", job)
	}
	var before []byte
	var report verify.Report
	eventually(t, "a witness", func() bool {
		before, report = export(t, client, job.ID)
		return report.Grade == verify.Witnessed
	})
	if all := wordsIn(t, c.Dir, marks...); len(all) < 3 {
		t.Fatalf("the words are only in %v", all)
	}

	var shredded control.Job
	eventually(t, "the job is shredded, once nothing is due for it", func() bool {
		var err error
		shredded, err = control.ShredJob.Call(t.Context(), client, job.ID)
		return err == nil && shredded.Erased != 0
	})
	if shredded.Exposed != 0 {
		t.Errorf("%d entries are exposed", shredded.Exposed)
	}
	if all := wordsIn(t, c.Dir, marks...); len(all) > 0 {
		t.Errorf("the words are in %v", all)
	}
	if again, err := control.ShredJob.Call(t.Context(), client, job.ID); err != nil || again.Erased != shredded.Erased {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := control.Evidence.Call(t.Context(), client, job.ID); err == nil || !strings.Contains(err.Error(), "was shredded") {
		t.Errorf("its evidence: %v", err)
	}
	if was := verified(t, before); was.Grade != verify.Witnessed {
		t.Errorf("the export of before is %s", was.Grade)
	}
	_, left := export(t, client, job.ID)
	for _, check := range []string{"receipt", "receipt signature", "journal entry", "checkpoint", "witness"} {
		if stateOf(left, check) != verify.Passed {
			t.Errorf("%s is %s", check, stateOf(left, check))
		}
	}
	if _, whole := export(t, client, other.ID); stateOf(whole, "bundle") != verify.Passed || stateOf(whole, "verdict") != verify.Passed {
		t.Errorf("the other job:\n%s", states(whole))
	}
	was, err := control.OneJob.Call(t.Context(), client, job.ID)
	if err != nil || was.Title != "" || was.Attempts[0].Reason != "" {
		t.Errorf("%+v, %v", was, err)
	}
	stop()
	replay(t, c, was)
}

// remarking is a judge with something to say.
func remarking(_ context.Context, c judge.Case) (guild.Verdict, judge.Evidence, error) {
	v := guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Tier: "none", Expected: 1, Passed: 1}
	if b, err := os.ReadFile(filepath.Join(c.Delivery, "delivery", "artifacts", "out.txt")); err != nil || string(b) == kept {
		return v, judge.Evidence(kept), err
	}
	v.Warnings = []string{inVerdict}
	return v, judge.Evidence(inEvidence), nil
}

// replay restarts the node of a shredded job from the entries alone.
func replay(t *testing.T, c Config, was control.Job) {
	t.Helper()
	states := stateIn(t, c)
	replayed(t, c)
	for fold, state := range stateIn(t, c) {
		if states[fold] != state {
			t.Errorf("%s was\n%s\nand after a replay it is\n%s", fold, states[fold], state)
		}
	}
	if found, err := journal.Check(t.Context(), journal.CheckOptions{Dir: filepath.Join(c.Dir, "journal")}); err != nil || len(found.Faults) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
	client, stop := runAgain(t, c)
	now, err := control.OneJob.Call(t.Context(), client, was.ID)
	if err != nil || now.Erased != was.Erased || now.Ending != was.Ending || now.Bundle != was.Bundle {
		t.Errorf("%+v, %v", now, err)
	}
	export(t, client, was.ID)
	stop()
	if all := wordsIn(t, c.Dir, marks...); len(all) > 0 {
		t.Errorf("after a restart the words are in %v", all)
	}
}
