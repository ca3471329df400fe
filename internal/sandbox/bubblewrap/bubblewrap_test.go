package bubblewrap_test

import (
	"io"
	"testing"

	"guild/internal/sandbox"
	"guild/internal/sandbox/bubblewrap"
	"guild/internal/sandbox/sandboxtest"
)

func TestBubblewrap(t *testing.T) {
	sandboxtest.Test(t, func(*testing.T) sandbox.Runner { return bubblewrap.Runner{} })
}

func TestADiskThatIsFullAtTheEndIsALimitThatWasReached(t *testing.T) {
	r := bubblewrap.Runner{}
	if c := r.Probe(t.Context()); !c.Usable {
		t.Skip(c.Reason)
	}
	for script, want := range map[string]string{
		"head -c 40000000 /dev/zero >x; true": sandbox.KilledDisk,
		"head -c 20000000 /dev/zero >x; true": "",
	} {
		s := sandbox.Spec{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Collect: []string{"y"}}
		s.Limits.Disk = 32 << 20
		if res, err := r.Run(t.Context(), s, sandbox.IO{Files: io.Discard}); err != nil || res.Killed != want {
			t.Errorf("%s: killed by %q, want %q (%v)", script, res.Killed, want, err)
		}
	}
}
