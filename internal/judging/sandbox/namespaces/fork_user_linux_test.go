package namespaces_test

import (
	"os"
	"testing"
)

// TestOrdinaryUserForks runs the fork server's tests again as an ordinary user, if we are root.
func TestOrdinaryUserForks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("all of this package's tests run as an ordinary user anyway")
		return
	}
	out, err := asOrdinaryUser(t, "-test.v", "-test.short", "-test.run", "^TestFork").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
