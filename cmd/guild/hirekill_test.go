package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/control"
)

// A hire is repeated until its end is shown, while it or its node is killed at random: by its id, or as it is. Each is one
// job, done once. GUILD_HIRE_KILLS sets how many.
func TestRepeatedHireIsOneJob(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	seed := cmp.Or(*killSeed, uint64(time.Now().UnixNano()))
	t.Logf("to do the same again: -kill-seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	hires := 4
	if n, err := strconv.Atoi(os.Getenv("GUILD_HIRE_KILLS")); err == nil {
		hires = n
	}
	w := newTown(t)
	provider, home := w.settle("provider"), w.settle("customer")
	w.mortalWork(provider, "greeting", hello, 0).says(t, "ready")
	kills := 0
	var named []string
	for i := range hires {
		files := greeting()
		manifest := files["nutshell.json"]
		manifest.Data = bytes.Replace(manifest.Data, []byte("Say hello"), fmt.Appendf(nil, "Say hello %d", i), 1)
		bundle := filepath.Join(w.dir, "greeting.nut")
		if err := os.WriteFile(bundle, pack(t, files), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"hire", bundle, "--home", home, "--unvetted"}
		if i%2 == 0 {
			named = append(named, guild.NewJobID().String())
			args = append(args, "--id", named[len(named)-1])
		}
		own := i%4 < 2 // the hire is the node itself
		for try := 0; ; try++ {
			if try == 40 {
				t.Fatalf("hire %d was killed %d times", i, try)
			}
			life := time.Duration(random.Int64N(int64(300*time.Millisecond)*int64(try+2))) + 20*time.Millisecond
			if w.hiredWithin(home, own, life, args) {
				break
			}
			kills++
		}
	}
	t.Logf("%d hires, %d kills", hires, kills)
	w.up(home)
	jobs, err := control.Jobs.Call(t.Context(), w.client(home))
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != hires {
		t.Errorf("%d jobs of %d hires", len(jobs), hires)
	}
	there := map[string]bool{}
	for _, job := range jobs {
		there[job.ID] = true
	}
	for _, id := range named {
		if !there[id] {
			t.Errorf("no job %s", id)
		}
	}
	mustAllBeDoneOnce(t, w, home, provider)
}

// hiredWithin runs a hire, kills it or the node that it uses after some time, and reports whether it has shown that the work
// was accepted.
func (w *town) hiredWithin(home string, own bool, life time.Duration, args []string) bool {
	w.t.Helper()
	var node *process
	if !own {
		node = w.mortalUp(home, 0)
		node.says(w.t, "ready")
	}
	hire := w.start("guild", []string{"GUILD_RELAYS=" + w.relay}, args...)
	select {
	case <-hire.ended:
	case <-time.After(life):
	}
	if own {
		hire.kill()
	} else {
		node.kill()
		hire.wait(w.t)
	}
	state := hire.cmd.ProcessState
	if state.Exited() && !slices.Contains([]int{exitAccepted, exitFailed, exitNoNode}, state.ExitCode()) {
		w.t.Fatalf("exit code %d: %s", state.ExitCode(), hire.errs.String())
	}
	close(hire.lines) // it has ended
	for line := range hire.lines {
		if strings.HasPrefix(line, "accepted after ") {
			return true
		}
	}
	return false
}
