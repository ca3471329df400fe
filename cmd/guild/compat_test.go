package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"guild/internal/policy"
)

// The data below testdata/compat was written by guild of these times: the homes of a customer and its providers, the
// exports of the customer's receipts, and what each read verb printed. A data directory and an export are for ever, so
// later versions must read them and print at least the same.
var olds = []string{
	"november-2026",          // a job of every ending
	"verdicts-november-2026", // verdicts of every strength, exposure and blame, with hidden tests that are shown in one export
}

// policyID is the policy in force in what guild trust ls prints, which is that of the program.
var policyID = regexp.MustCompile(`"policy_bundle_id": *"[^"]*"`)

func TestOldHomes(t *testing.T) {
	t.Setenv("GUILD_TRUST_POLICY", policy.Partnership) // the default of those times
	inForce, err := policy.Specification().Hash()
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range olds {
		dir := t.TempDir()
		unpackHomes(t, dir, old)
		for _, want := range txtar.Parse(gunzip(t, "testdata/compat/"+old+".txtar.gz")).Files { // the name of each is a home and a command line
			home, verb, _ := strings.Cut(want.Name, " ")
			t.Run(old+"/"+strings.ReplaceAll(want.Name, " ", "_"), func(t *testing.T) {
				got := runVerb(t, append([]string{"--home", filepath.Join(dir, home)}, strings.Fields(verb)...)...)
				if strings.HasPrefix(verb, "trust ls ") {
					want.Data = policyID.ReplaceAll(want.Data, fmt.Appendf(nil, `"policy_bundle_id": "%s"`, inForce))
				}
				comparePrinted(t, got, string(want.Data))
				checkAgainstSchema(t, strings.Fields(verb), got)
			})
		}
	}
}

// TestOldExports verifies exports with guild and with the second verifier; verify/page does it in a browser.
func TestOldExports(t *testing.T) {
	for _, old := range olds {
		dir := t.TempDir()
		unpackHomes(t, dir, old)
		exports, err := filepath.Glob(filepath.Join(dir, "exports", "*.zip"))
		if err != nil || len(exports) == 0 {
			t.Fatalf("%d exports, %v", len(exports), err)
		}
		for _, export := range exports {
			if got := runVerb(t, "verify", export); !strings.HasSuffix(got, "exit 0\n") {
				t.Errorf("guild verify %s: %s", filepath.Base(export), got)
			}
		}
		second := exec.CommandContext(t.Context(), "python3", append([]string{"../../verify/page/verify.py"}, exports...)...)
		if out, err := second.CombinedOutput(); err != nil {
			t.Errorf("verify.py: %v\n%s", err, out)
		}
	}
}

func gunzip(t *testing.T, path string) []byte {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unpackHomes(t *testing.T, dir, old string) {
	t.Helper()
	archive := tar.NewReader(bytes.NewReader(gunzip(t, "testdata/compat/"+old+".tar.gz")))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runVerb returns what guild printed, and its exit code on a last line.
func runVerb(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "guild", args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TZ=UTC", "NO_COLOR=1")
	out, err := cmd.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return fmt.Sprintf("%sexit %d\n", out, cmd.ProcessState.ExitCode())
}

// comparePrinted demands the same exit code, and of JSON at least the same members with the same values. An error, which was
// printed on standard error alone then, may follow.
func comparePrinted(t *testing.T, got, want string) {
	t.Helper()
	gotJSON, wantJSON := json.NewDecoder(strings.NewReader(got)), json.NewDecoder(strings.NewReader(want))
	for {
		var g, w any
		wantErr := wantJSON.Decode(&w)
		gotErr := gotJSON.Decode(&g)
		if _, isError := member(g, "error").(string); isError && wantErr != nil {
			break
		}
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("got error %v, want %v, in %.200s", gotErr, wantErr, got)
		}
		if wantErr != nil {
			break // at the line with the exit code
		}
		if err := contains("", g, w); err != nil {
			t.Fatal(err)
		}
	}
	if g, w := lastLine(got), lastLine(want); g != w {
		t.Errorf("got %q, want %q", g, w)
	}
}

// member returns a member of an object, or nil.
func member(object any, name string) any {
	members, _ := object.(map[string]any)
	return members[name]
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// contains reports where got lacks a member of want or has another value there.
func contains(at string, got, want any) error {
	switch want := want.(type) {
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: got %.80v, want an object", at, got)
		}
		for name, value := range want {
			if _, there := members[name]; !there {
				return fmt.Errorf("%s.%s is missing", at, name)
			}
			if err := contains(at+"."+name, members[name], value); err != nil {
				return err
			}
		}
		return nil
	case []any:
		items, ok := got.([]any)
		if !ok || len(items) != len(want) {
			return fmt.Errorf("%s: got %d items, want %d", at, len(items), len(want))
		}
		for i := range want {
			if err := contains(fmt.Sprintf("%s[%d]", at, i), items[i], want[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: got %v, want %v", at, got, want)
	}
	return nil
}

// removed lists verbs and flags of November 2026 that are gone on purpose, with the reason. CHANGELOG tells users.
var removed = map[string]string{
	"guild nut context --encoding": "tokens are counted in one encoding; a second vocabulary was 2.5 MB of the program",
}

func TestVerbsAndFlagsOfNovember2026(t *testing.T) {
	root := (&program{}).rootCommand()
	root.InitDefaultHelpCmd()
	for _, help := range txtar.Parse(gunzip(t, "testdata/compat/help-november-2026.txtar.gz")).Files {
		path := strings.Fields(help.Name)
		cmd, rest, err := root.Find(path[1:])
		if err != nil || len(rest) > 0 {
			if removed[help.Name] == "" {
				t.Errorf("%s is gone", help.Name)
			}
			continue
		}
		for _, flag := range flagsOf(string(help.Data)) {
			if cmd.Flag(flag) == nil && cmd.InheritedFlags().Lookup(flag) == nil && removed[help.Name+" --"+flag] == "" {
				t.Errorf("%s has no flag --%s", help.Name, flag)
			}
		}
	}
}

// flagsOf lists the flags in the "Flags" sections of a help text.
func flagsOf(help string) []string {
	var flags []string
	for line := range strings.Lines(help) {
		before, name, ok := strings.Cut(strings.TrimLeft(line, " "), "--")
		if !strings.HasPrefix(line, "  ") || !ok || before != "" && !strings.HasPrefix(before, "-") {
			continue
		}
		name, _, _ = strings.Cut(strings.Fields(name)[0], "[")
		if name != "help" {
			flags = append(flags, name)
		}
	}
	return flags
}
