package namespaces_test

import (
	"os"
	"testing"
)

// forkTests are those of the fork server.
const forkTests = "^(TestAFork.*|TestNoRun.*|TestNothingIs.*|TestManyRunsLeave.*|TestTheLimitsOfAFork.*|TestBreachesOfAFork.*|" +
	"TestCopiesOfAFork|TestACaller.*|TestAKilledTemplate.*|TestKillingTheJudgeEndsItsForks)$"

// TestForksAsAnOrdinaryUser runs the fork server's tests once more, if they run as root.
func TestForksAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("all of this package's tests run as an ordinary user anyway")
		return
	}
	out, err := asOrdinaryUser(t, "-test.v", "-test.short", "-test.run", forkTests).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
