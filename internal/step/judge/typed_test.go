package judge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/workdir"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/typed"
	"guild/internal/step/judge"
	"guild/nutshell"
	"guild/oa"
)

// runs returns the request of a sandbox run, and its bundle as a directory.
func runs(t *testing.T, q oa.SandboxRequest) (e oa.Envelope, bundle string) {
	t.Helper()
	e, err := oa.NewEnvelope(q)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := typed.Bundle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	b, err := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), nutshell.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	bundle = filepath.Join(t.TempDir(), "bundle")
	if err := workdir.Unpack(t.Context(), b, bundle); err != nil {
		t.Fatal(err)
	}
	return e, bundle
}

func TestTypedJob(t *testing.T) {
	e, bundle := runs(t, oa.SandboxRequest{Sandbox: oa.Sandbox{ImageDigest: typed.Host}, Commands: []oa.Command{{Cmd: "echo x >f"}}})
	j := newEngine(t)
	box := typed.Sandbox{Images: map[string]sandbox.Runner{typed.Host: j.Exam.Runner}, Scratch: t.TempDir()}
	j.Typed = typed.Checker{Types: oa.Known(), Sandbox: &box}
	honest, err := box.Do(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	v, evidence := judged(t, j, bundle, deliver(t, map[string]string{typed.ResultFile: string(honest)}))
	wants(t, v, guild.Success, guild.Strong, 4, 4)
	if v.Score != guild.Micro || v.Standing != guild.StandingActive || v.Tier != j.Caps.Tier || !json.Valid(evidence) {
		t.Errorf("%+v", v)
	}

	cheat := strings.Replace(string(honest), `"exit_code":0`, `"exit_code":1`, 1)
	cheat = strings.Replace(cheat, `"status":"success"`, `"status":"failed"`, 1)
	v, _ = judged(t, j, bundle, deliver(t, map[string]string{typed.ResultFile: cheat}))
	wants(t, v, guild.Failure, guild.Weak, 2, 4)
	if v.Score != 0 || !strings.Contains(v.Cause, "outputs.status is failed, and success when we run it") {
		t.Errorf("%+v", v)
	}

	copied := strings.Replace(string(honest), `"provenance":{`, `"provenance":{"provider_pubkey":"`+strings.Repeat("ab", 32)+`",`, 1)
	hearing := judge.Case{Bundle: bundle, Delivery: deliver(t, map[string]string{typed.ResultFile: copied}), Provider: nostr.PubKey{7}}
	if v, _, err = j.Hear(t.Context(), hearing); err != nil || v.Outcome != guild.Failure || !strings.HasPrefix(v.Cause, "provenance: ") {
		t.Errorf("a copy: %+v %v", v, err)
	}

	j.Typed = typed.Checker{} // no job type is described here
	_, _, err = j.Judge(t.Context(), bundle, deliver(t, map[string]string{typed.ResultFile: cheat}))
	if person, held := errors.AsType[*judge.PersonNeeded](err); !held || !strings.Contains(person.Reason, "unknown job type") {
		t.Errorf("error %v", err)
	}

	j.Typed = typed.Checker{Types: oa.Known()}
	v, _ = judged(t, j, bundle, deliver(t, map[string]string{typed.ResultFile: cheat}))
	wants(t, v, guild.Success, guild.Unverified, 2, 2)
	if v.Counts() {
		t.Error("a run that was not repeated counts")
	}
}

func TestTypedRunCutShort(t *testing.T) {
	q := oa.SandboxRequest{Sandbox: oa.Sandbox{ImageDigest: typed.Host}, Commands: []oa.Command{{Cmd: "sleep 30"}}}
	q.Sandbox.Resources.TimeoutSecs = 1
	_, bundle := runs(t, q)
	j := newEngine(t)
	j.Typed = typed.Checker{Types: oa.Known(), Sandbox: &typed.Sandbox{Images: map[string]sandbox.Runner{typed.Host: j.Exam.Runner}, Scratch: t.TempDir()}}
	none := strings.Repeat("0a", 32)
	claims := `{"env_info":{"image_digest":"host"},"runs":[{"cmd":"sleep 30","exit_code":0,"duration_ms":1,"stdout_sha256":"` + none + `","stderr_sha256":"` + none + `"}],"artifacts":[],"status":"success"}`
	v, evidence, err := j.Judge(t.Context(), bundle, deliver(t, map[string]string{typed.ResultFile: claims}))
	person, ok := errors.AsType[*judge.PersonNeeded](err)
	if !ok || !strings.Contains(person.Reason, "our own run came to timeout") || v.Outcome == guild.Success || !json.Valid(evidence) {
		t.Errorf("%+v %v", v, err)
	}
}
