package namespaces

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
)

// environment in which a test plays a judge with a warm interpreter that is killed.
const playsWarmJudge = "GUILD_TEST_PLAYS_WARM_JUDGE"

func TestKillingTheJudgeEndsItsForks(t *testing.T) {
	if os.Getenv(playsWarmJudge) != "" {
		spec := does("print('started', flush=True)\nos.fork()\nimport time\ntime.sleep(1000)")
		(&Runner{}).Run(context.Background(), spec, sandbox.IO{Stdout: os.Stdout})
		return
	}
	// What loses its parent becomes ours, so that we see it.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for i := range 12 {
		judge := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
		judge.Env = []string{playsWarmJudge + "=1"}
		out, err := judge.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := judge.Start(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			out.Read(make([]byte, 8)) // it runs
		} else {
			<-time.After(time.Duration(i) * 15 * time.Millisecond) // somewhere on the way there
		}
		judge.Process.Kill()
		judge.Wait()
		if left := orphans(); len(left) > 0 {
			t.Errorf("attempt %d left %v", i, left)
		}
	}
}
