package archive_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/archive"
	"guild/internal/nut/host"
)

// verb runs one verb of the program and returns what it printed.
func verb(args ...string) (string, error) {
	var out bytes.Buffer
	p := &host.Program{Name: "nutshell", In: strings.NewReader(""), Out: &out, Err: &out}
	root := cli.Group(cli.Root(&cobra.Command{Use: "nutshell"}), archive.Commands(p)...)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestUnpackHostileBundles(t *testing.T) {
	files, err := filepath.Glob("../../../nutshell/testdata/hostile/*.nut")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	encrypted := "../../../nutshell/testdata/reference/full-request.encrypted.nut"
	for _, file := range append(files, encrypted) {
		name := filepath.Base(file)
		honest := strings.HasPrefix(name, "ok-") || strings.HasPrefix(name, "unknown-fields-")
		around := t.TempDir()
		dir := filepath.Join(around, "in", "job")
		if err := os.Mkdir(filepath.Dir(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := verb("unpack", file, "-o", dir)
		left, _ := os.ReadDir(filepath.Dir(dir))
		outside, _ := os.ReadDir(around)
		if len(outside) != 1 {
			t.Errorf("%s: wrote outside: %v", name, outside)
		}
		if honest {
			if err != nil || len(left) != 1 || !strings.Contains(out, "id  nut-") {
				t.Errorf("%s: %v, %v, %q", name, err, left, out)
			}
			continue
		}
		if cli.CodeOf(err) != cli.ExitFailed || cli.HintOf(err) == "" || len(left) != 0 || out != "" {
			t.Errorf("%s: %v, hint %q, left %v, printed %q", name, err, cli.HintOf(err), left, out)
		}
	}
	for _, evil := range []string{"/tmp/evil-abs.txt"} {
		if _, err := os.Lstat(evil); err == nil {
			t.Errorf("%s was written", evil)
		}
	}
}
