package agent

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Found is an agent's program on this machine.
type Found struct {
	Command string   // for /bin/sh -c
	Program string   // the file that is executed
	Mounts  []string // directories and files that the program needs, beside the system's /usr
}

// MissingError is the error of an agent whose program is not on this machine.
type MissingError struct {
	Preset Preset
	Cause  error
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("the agent %s: its program %q is not found: %v", e.Preset.Name, e.Preset.program, e.Cause)
}

func (e *MissingError) Unwrap() error { return e.Cause }

// Hint says how to install it.
func (e *MissingError) Hint() string {
	return e.Preset.Install + ", and have it on PATH where guild is started"
}

// Find looks for the agent's program on PATH, and returns the command that runs it.
//
// Agents from npm have a launcher in JavaScript or a placeholder on PATH, and the program of the platform in a package of
// its own. That program is executed, so that the sandbox needs no Node.js.
func (p Preset) Find() (Found, error) {
	launcher, err := exec.LookPath(p.program)
	if err == nil {
		launcher, err = filepath.Abs(launcher)
	}
	if err == nil {
		launcher, err = filepath.EvalSymlinks(launcher)
	}
	if err != nil {
		return Found{}, &MissingError{p, err}
	}
	head, err := readHead(launcher)
	switch {
	case err != nil:
		return Found{}, &MissingError{p, err}
	case bytes.HasPrefix(head, []byte(elf)):
		return p.found(quote(launcher), launcher, needed(launcher)), nil
	}
	if program := p.platform(launcher); program != "" {
		return p.found(quote(program), program, needed(program)), nil
	}
	return p.scripted(launcher, head)
}

// platform returns the platform's own program for a launcher from npm, or "". It looks for the program's package where Node.js
// would.
func (p Preset) platform(launcher string) string {
	if p.native == "" {
		return ""
	}
	pattern := strings.ReplaceAll(p.native, "ARCH", archName())
	for dir := filepath.Dir(launcher); ; dir = filepath.Dir(dir) {
		packages := filepath.Join(dir, "node_modules")
		programs, _ := fs.Glob(os.DirFS(packages), pattern) // in order, so that -linux-x64 comes before -linux-x64-musl
		for _, name := range programs {
			program := filepath.Join(packages, name)
			if head, err := readHead(program); err == nil && bytes.HasPrefix(head, []byte(elf)) {
				return program
			}
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// elf is the beginning of every program for Linux.
const elf = "\x7fELF"

// archName returns the name of this processor in npm's packages.
func archName() string {
	if runtime.GOARCH == "amd64" {
		return "x64"
	}
	return runtime.GOARCH
}

// scripted returns the command for a launcher that is a script. It runs the interpreter of the first line.
func (p Preset) scripted(launcher string, head []byte) (Found, error) {
	first, _, _ := strings.Cut(string(head), "\n")
	words := strings.Fields(strings.TrimPrefix(first, "#!"))
	if !strings.HasPrefix(first, "#!") || len(words) == 0 {
		return Found{}, &MissingError{p, fmt.Errorf("%s is neither a program nor a script: its installation was not finished", launcher)}
	}
	interpreter := words[0]
	if filepath.Base(interpreter) == "env" {
		interpreter = words[len(words)-1]
	}
	interpreter, err := exec.LookPath(interpreter)
	if err != nil {
		return Found{}, &MissingError{p, err}
	}
	real, err := filepath.EvalSymlinks(interpreter)
	if err != nil {
		return Found{}, &MissingError{p, err}
	}
	return p.found(quote(interpreter)+" "+quote(launcher), launcher, modules(launcher), needed(interpreter), needed(real)), nil
}

// needed returns the path that a program needs: its npm package, the directory of its virtual environment or of an
// interpreter's own installation, or the program alone. The directory of a lone program is not included, because it may
// hold files that are not for a worker.
func needed(program string) string {
	if at := strings.LastIndex(program, nodeModules); at > 0 {
		parts := strings.SplitN(program[at+len(nodeModules):], "/", 3)
		depth := 1
		if strings.HasPrefix(parts[0], "@") {
			depth = 2
		}
		return program[:at+len(nodeModules)] + strings.Join(parts[:min(depth, len(parts))], "/")
	}
	above := filepath.Dir(filepath.Dir(program))
	for _, mark := range []string{"pyvenv.cfg", "include", "lib/node_modules"} {
		if _, err := os.Stat(filepath.Join(above, mark)); err == nil && filepath.Base(above) != ".local" && above != "/" {
			return above
		}
	}
	return program
}

const nodeModules = "/node_modules/"

// modules returns the outermost node_modules directory around a script of Node.js, because the script may require any package
// in it. For another script it returns what needed returns.
func modules(script string) string {
	if before, _, ok := strings.Cut(script, nodeModules); ok {
		return before + strings.TrimSuffix(nodeModules, "/")
	}
	return needed(script)
}

// found returns the command that runs a program. Of the paths it mounts those that are not in every sandbox.
func (p Preset) found(command, program string, paths ...string) Found {
	f := Found{Command: strings.ReplaceAll(p.script, "PROGRAM", command), Program: program}
	for _, path := range paths {
		if !inSystem(path) && !slices.Contains(f.Mounts, path) {
			f.Mounts = append(f.Mounts, path)
		}
	}
	return f
}

// inSystem reports whether a path is in the system directories, which every sandbox has.
func inSystem(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains([]string{"usr", "bin", "sbin"}, first) || strings.HasPrefix(first, "lib")
}

// readHead returns the beginning of a file.
func readHead(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 256))
}

// quote makes a path one word for the shell.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }
