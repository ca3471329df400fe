package namespaces

import (
	"context"
	"os"
	"testing"
	"time"

	"guild/internal/judging/sandbox"
)

// playsWarmJudge is the variable that makes a test act as a judge with a warm interpreter that is killed.
const playsWarmJudge = "GUILD_TEST_PLAYS_WARM_JUDGE"

func TestForkEndsWithJudge(t *testing.T) {
	if os.Getenv(playsWarmJudge) != "" {
		spec := does("print('started', flush=True)\nos.fork()\nimport time\ntime.sleep(1000)")
		(&Runner{}).Run(context.Background(), spec, sandbox.IO{Stdout: os.Stdout})
		return
	}
	killJudges(t, 12, 15*time.Millisecond, playsWarmJudge+"=1", "-test.run", "^"+t.Name()+"$")
}
