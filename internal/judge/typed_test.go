package judge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"guild"
	"guild/internal/exam"
	"guild/internal/sandbox"
	"guild/internal/typed"
	"guild/internal/workdir"
	"guild/nutshell"
	"guild/oa"
)

func TestATypedJobIsJudgedByDoingItAgain(t *testing.T) {
	e, err := oa.NewEnvelope(oa.SandboxRequest{Sandbox: oa.Sandbox{ImageDigest: typed.Host}, Commands: []oa.Command{{Cmd: "echo x >f"}}})
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
	bundle := filepath.Join(t.TempDir(), "bundle")
	if err := workdir.Unpack(t.Context(), b, bundle); err != nil {
		t.Fatal(err)
	}
	j := newEngine(t)
	box := typed.Sandbox{Images: map[string]sandbox.Runner{typed.Host: j.Exam.Runner}, Scratch: t.TempDir()}
	j.Typed = typed.Checker{Types: oa.Known(), Sandbox: &box}
	honest, err := box.Do(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	v, evidence := judged(t, j, bundle, deliver(t, map[string]string{typed.ResultFile: string(honest)}))
	wants(t, v, guild.Success, guild.Strong, 4, 4)
	if v.Score != guild.Micro || v.Standing != guild.StandingActive || v.Tier != j.Caps.Tier || !v.MayPay(1000, 0) || !json.Valid(evidence) {
		t.Errorf("%+v", v)
	}

	cheat := strings.Replace(string(honest), `"exit_code":0`, `"exit_code":1`, 1)
	cheat = strings.Replace(cheat, `"status":"success"`, `"status":"failed"`, 1)
	v, _ = judged(t, j, bundle, deliver(t, map[string]string{typed.ResultFile: cheat}))
	wants(t, v, guild.Failure, guild.Strong, 2, 4)
	if v.Score != 0 || !strings.Contains(v.Cause, "outputs.status is failed, and success") || v.MayPay(0, 0) {
		t.Errorf("%+v", v)
	}

	j.Typed = typed.Checker{} // no job type is described here
	if _, _, err := j.Judge(t.Context(), bundle, deliver(t, map[string]string{typed.ResultFile: cheat})); !errors.Is(err, exam.ErrUndecided) {
		t.Errorf("error %v", err)
	}

	j.Typed = typed.Checker{Types: oa.Known()}
	v, _ = judged(t, j, bundle, deliver(t, map[string]string{typed.ResultFile: cheat}))
	wants(t, v, guild.Success, guild.Weak, 2, 2)
	if v.MayPay(1000, 0) {
		t.Error("what nobody repeated is paid without a cap")
	}
}
