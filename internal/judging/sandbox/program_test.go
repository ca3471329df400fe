package sandbox

import (
	"os/exec"
	"strings"
	"testing"
)

func TestLongProgram(t *testing.T) {
	setup := "def main():\n    print(__name__, len(DATA), main.__code__.co_filename)\n"
	for _, size := range []int{10, 500_000} {
		p := &Program{Setup: "DATA = '" + strings.Repeat("x", size) + "'\n" + setup}
		out, err := exec.Command("/usr/bin/python3", Spec{Argv: []string{"-I"}, Program: p}.Command()...).CombinedOutput()
		if want := "__main__ "; err != nil || !strings.HasPrefix(string(out), want) || !strings.HasSuffix(string(out), " <string>\n") {
			t.Errorf("%d bytes: %v %.200s", size, err, out)
		}
	}
}
