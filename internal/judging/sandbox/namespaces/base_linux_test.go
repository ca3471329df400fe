package namespaces

import (
	"io"
	"os"
	"strings"
	"testing"
)

// inBase runs a script in the base namespaces and returns its output.
func inBase(t *testing.T, script string, files ...*os.File) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	argv := []string{"/bin/sh", "-c", script}
	_, gone, err := (&Runner{}).base(argv, []string{"PATH=/usr/bin:/bin"}, [3]*os.File{null, w, w}, files)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(r)
	<-gone
	return strings.TrimSpace(string(b))
}

func TestBasePrivileges(t *testing.T) {
	for script, want := range map[string]string{
		"id -u; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status": "0\nCapEff:\t000001ffffffffff\nNoNewPrivs:\t0",
		"echo x 2>/dev/null >/tmp/x || echo read-only":                            "read-only",
		"mount -t tmpfs box /box && touch /box/t && ls /box":                      "t",
		"unshare -Urmpf --mount-proc sh -c 'echo /proc/[0-9]*'":                   "/proc/1",
		"ls /proc/self/fd": "0\n1\n2\n3",
		"hostname":         "box",
		"for d in /box /judge /tmp /var/tmp /dev/shm; do test -d $d || echo no $d; done": "",
	} {
		if got := inBase(t, script); !strings.HasPrefix(got, want) {
			t.Errorf("%s\n%s\nwant %s", script, got, want)
		}
	}
	file, err := memory("given", []byte("given"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := inBase(t, "cat <&3", file); got != "given" {
		t.Errorf("descriptor 3: %q", got)
	}
}
