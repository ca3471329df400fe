package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// install writes files below a new directory, executable ones, and returns the directory. A content of "->" and a path is a
// link.
func install(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, isLink := strings.CutPrefix(content, "->"); isLink {
			err = os.Symlink(to, file)
		} else {
			err = os.WriteFile(file, []byte(content), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func preset(t *testing.T, name string) Preset {
	t.Helper()
	p, err := Named(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const program = elf + " and the rest"

func TestFindProgram(t *testing.T) {
	codex := "lib/node_modules/@openai/codex-linux-" + archName()
	for _, c := range []struct {
		name, agent   string
		files         map[string]string
		program, seen string // below the directory
	}{
		{"npm, whose launcher is JavaScript", "codex", map[string]string{
			"bin/codex": "->../lib/node_modules/@openai/codex/bin/codex.js",
			"lib/node_modules/@openai/codex/bin/codex.js":         "#!/usr/bin/env node\n",
			codex + "/vendor/x86_64-unknown-linux-musl/bin/codex": program,
		}, codex + "/vendor/x86_64-unknown-linux-musl/bin/codex", codex},
		{"npm, with the program's package below", "codex", map[string]string{
			"bin/codex": "->../lib/node_modules/@openai/codex/bin/codex.js",
			"lib/node_modules/@openai/codex/bin/codex.js":                                                           "#!/usr/bin/env node\n",
			"lib/node_modules/@openai/codex/node_modules/@openai/codex-linux-" + archName() + "/vendor/x/bin/codex": program,
		}, "lib/node_modules/@openai/codex/node_modules/@openai/codex-linux-" + archName() + "/vendor/x/bin/codex",
			"lib/node_modules/@openai/codex/node_modules/@openai/codex-linux-" + archName()},
		{"npm without install scripts", "claude-code", map[string]string{
			"bin/claude": "->../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
			"lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe":                       "echo not installed",
			"lib/node_modules/@anthropic-ai/claude-code-linux-" + archName() + "/claude":      program,
			"lib/node_modules/@anthropic-ai/claude-code-linux-" + archName() + "-musl/claude": program,
		}, "lib/node_modules/@anthropic-ai/claude-code-linux-" + archName() + "/claude", "lib/node_modules/@anthropic-ai/claude-code-linux-" + archName()},
		{"npm below a directory whose name is a pattern", "codex", map[string]string{
			"bin/codex": "->../[x]/node_modules/@openai/codex/bin/codex.js",
			"[x]/node_modules/@openai/codex/bin/codex.js":                                "#!/usr/bin/env node\n",
			"[x]/node_modules/@openai/codex-linux-" + archName() + "/vendor/x/bin/codex": program,
		}, "[x]/node_modules/@openai/codex-linux-" + archName() + "/vendor/x/bin/codex", "[x]/node_modules/@openai/codex-linux-" + archName()},
		{"a program of its own", "claude-code", map[string]string{
			"bin/claude": "->../share/claude/versions/2.1.332", "share/claude/versions/2.1.332": program, "share/claude/secret": "x",
		}, "share/claude/versions/2.1.332", "share/claude/versions/2.1.332"},
		{"a script alone", "goose", map[string]string{"bin/goose": "#!/bin/sh\n", "bin/other": "x"}, "bin/goose", "bin/goose"},
		{"a virtual environment", "aider", map[string]string{
			"bin/aider": "->../venvs/aider/bin/aider", "venvs/aider/bin/aider": "#!/bin/sh\n", "venvs/aider/pyvenv.cfg": "",
		}, "venvs/aider/bin/aider", "venvs/aider"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := install(t, c.files)
			t.Setenv("PATH", dir+"/bin:/usr/bin:/bin")
			found, err := preset(t, c.agent).Find()
			if err != nil {
				t.Fatal(err)
			}
			if found.Program != filepath.Join(dir, c.program) || !slices.Equal(found.Mounts, []string{filepath.Join(dir, c.seen)}) {
				t.Errorf("%s with %q", found.Program, found.Mounts)
			}
			if strings.Contains(found.Command, "PROGRAM") || !strings.Contains(found.Command, "'"+found.Program+"'") {
				t.Errorf("the command is\n%s", found.Command)
			}
		})
	}
}

func TestFindInterpreter(t *testing.T) {
	dir := install(t, map[string]string{
		"bin/claude": "->../lib/node_modules/@anthropic-ai/claude-code/cli.js",
		"lib/node_modules/@anthropic-ai/claude-code/cli.js": "#!/usr/bin/env node\n",
		"bin/node": program, "lib/node_modules/npm/x": "x",
	})
	t.Setenv("PATH", dir+"/bin")
	found, err := preset(t, "claude-code").Find()
	if err != nil {
		t.Fatal(err)
	}
	if want := "'" + dir + "/bin/node' '" + dir + "/lib/node_modules/@anthropic-ai/claude-code/cli.js' -p"; !strings.Contains(found.Command, want) {
		t.Errorf("want %s in\n%s", want, found.Command)
	}
	if !slices.Equal(found.Mounts, []string{dir + "/lib/node_modules", dir}) {
		t.Errorf("mounts %q", found.Mounts)
	}
}

func TestFileNamesAreNoOptionsOfAider(t *testing.T) {
	dir := install(t, map[string]string{
		"bin/aider": "#!/bin/sh\nprintf '%s|' \"$@\"\n", "bundle/files/a b --load evil.py": "x", "bundle/files/c*.py": "x", "bundle/files/two\nlines": "x",
	})
	t.Setenv("PATH", dir+"/bin:/usr/bin:/bin")
	found, err := preset(t, "aider").Find()
	if err != nil {
		t.Fatal(err)
	}
	delivery := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", found.Command)
	cmd.Dir, cmd.Env = filepath.Join(dir, "bundle"), append(os.Environ(), "GUILD_DELIVERY="+delivery, "GUILD_PROMPT=do it")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, files, _ := strings.Cut(string(out), "|--message|do it|")
	names := strings.Split(strings.TrimSuffix(files, "|"), "|")
	slices.Sort(names)
	if !slices.Equal(names, []string{"./a b --load evil.py", "./c*.py"}) {
		t.Errorf("files %q in %s", names, out)
	}
}

func TestProgramIsMissing(t *testing.T) {
	t.Setenv("PATH", install(t, map[string]string{"claude": "echo its installation did not end", "codex": "#!/no/such/interpreter\n"}))
	for _, name := range Names() {
		_, err := preset(t, name).Find()
		missing, ok := errors.AsType[*MissingError](err)
		if !ok || missing.Hint() == "" || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPresets(t *testing.T) {
	if _, err := Named("claude", ""); err == nil || !strings.Contains(err.(*UnknownError).Hint(), "claude-code, codex, opencode, goose, aider") {
		t.Errorf("%v", err)
	}
	for _, c := range []struct{ agent, model, keyEnv string }{
		{"claude-code", "", "ANTHROPIC_API_KEY"}, {"claude-code", "openai/x", "ANTHROPIC_API_KEY"},
		{"codex", "gpt-5.5", "OPENAI_API_KEY"}, {"opencode", "anthropic/x", "ANTHROPIC_API_KEY"}, {"opencode", "openai/x", "OPENAI_API_KEY"},
		{"aider", "openai/x", "OPENAI_API_KEY"},
	} {
		p, err := Named(c.agent, c.model)
		if err != nil || p.API.KeyEnv != c.keyEnv {
			t.Errorf("%s with %q: %s, %v", c.agent, c.model, p.API.KeyEnv, err)
		}
	}
	if _, err := preset(t, "goose").Login(); err == nil {
		t.Error("goose has a login")
	}
}
