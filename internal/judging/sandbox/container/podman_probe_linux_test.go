package container

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"guild/internal/judging/sandbox"
)

func TestGivesRange(t *testing.T) {
	const file = "alice:100000:65536\n1001:165536:65536\n"
	for name, want := range map[string]bool{"alice": true, "1001": true, "ali": false, "bob": false, "": false} {
		if givesRange(file, []string{name}) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestPodmanProbeLeavesNothing(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_DATA_HOME"} {
		if env := podmanEnv(home); !slices.Contains(env, name+"="+home) {
			t.Errorf("%s is not in %q", name, env)
		}
	}
	podman := filepath.Join(t.TempDir(), "podman")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(podman, program, 0o755); err != nil {
		t.Fatal(err)
	}
	pause := exec.Command(podman, "60")
	if err := pause.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "pause.pid"), []byte(strconv.Itoa(pause.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	stopPauses(home)
	if err := pause.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the pause process: %v", err)
	}
}

func TestPodmanComplaint(t *testing.T) {
	if got := complaint("level=warning x\nError: no ids: %!w(<nil>)\n"); got != "no ids" {
		t.Errorf("%q", got)
	}
}

func TestPodmanSaysWhy(t *testing.T) {
	podman := filepath.Join(t.TempDir(), "podman")
	late := "#!/bin/sh\nexec 3>&- 5<&- 6>&- 7>&-\nls -R /etc >/dev/null 2>&1\necho 'Error: no ids' >&2\nexit 126\n"
	if err := os.WriteFile(podman, []byte(late), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Podman{Path: podman}.Run(t.Context(), sandbox.Spec{Argv: []string{"/bin/true"}}, sandbox.IO{})
	if err == nil || !strings.Contains(err.Error(), "no ids") {
		t.Errorf("got %v", err)
	}
}
