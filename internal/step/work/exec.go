package work

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"guild/internal/judging/sandbox"
	"guild/replay/session"
)

// Exec is a worker that is a command: any agent's command line fits. It runs in the unpacked bundle with
// GUILD_BUNDLE, GUILD_DELIVERY and GUILD_JOB, GUILD_INPUTS if anything was given beside the bundle, GUILD_VAULT if
// credentials came with it, and GUILD_TRACE, the number of a descriptor that takes lines on what it does, in an
// otherwise cleared environment.
type Exec struct {
	Command string         // for /bin/sh -c
	Env     []string       // "NAME=value" that the owner passes through; SecretsIn finds the secrets in it
	Mounts  []string       // host directories that it may read, at the same place
	Network bool           // it may reach out
	Runner  sandbox.Runner // Bare only when the owner said so
	Limits  sandbox.Limits // Wall is the assignment's
	Trace   session.Format // of the lines on its standard output; they are for people if empty

	Log *slog.Logger // hears what a failing command said last; slog.Default() if nil
}

// Where the command finds its directories inside the sandbox.
const (
	insideBundle   = "/box/bundle"
	insideDelivery = "/box/delivery"
	insideInputs   = "/box/inputs"
	insideVault    = sandbox.Home + "/vault" // a copy in the sandbox's own memory
)

func (a Assignment) hide(text string) string {
	if a.Hide == nil {
		return text
	}
	return a.Hide(text)
}

// Do runs the command to its end and everything it started with it.
func (x Exec) Do(ctx context.Context, a Assignment) error {
	spec := x.spec(a)
	var stderr tail
	heard := x.hear(a)
	result, err := x.Runner.Run(ctx, spec, heard.streams(strings.NewReader(""), &stderr))
	heard.end(ctx, result, err)
	switch {
	case err != nil:
		return fmt.Errorf("the sandbox: %w", err)
	case ctx.Err() != nil:
		return ctx.Err()
	case result.Killed != "":
		err = fmt.Errorf("the worker went over its limit: %s", result.Killed)
	case result.Exit != 0:
		err = fmt.Errorf("the worker failed with exit code %d", result.Exit)
	}
	if err != nil { // the owner sees why; the customer is told no more than that it failed
		cmp.Or(x.Log, slog.Default()).Warn("a worker failed", "job", a.Job, "err", err, "stderr", stderr.shown(a.hide))
	}
	return err
}

// Find reports whether the command's program is there in the sandbox. It looks at the first word only.
func (x Exec) Find(ctx context.Context) (found bool, err error) {
	word, _, _ := strings.Cut(strings.TrimSpace(x.Command), " ")
	if strings.ContainsAny(word, "=(){};&|<>$`") {
		return true, nil // a script of its own
	}
	spec := x.spec(Assignment{Bundle: os.TempDir(), Delivery: os.TempDir(), Limit: time.Minute})
	spec.Argv = []string{"/bin/sh", "-c", "command -v " + word}
	spec.Dir, spec.Mounts = sandbox.Workspace, spec.Mounts[2:] // without a bundle and a delivery
	if _, bare := x.Runner.(Bare); bare {
		spec.Dir = "/"
	}
	result, err := x.Runner.Run(ctx, spec, sandbox.IO{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	return result.Exit == 0, err
}

func (x Exec) spec(a Assignment) sandbox.Spec {
	bundle, delivery, home := insideBundle, insideDelivery, sandbox.Home
	if _, bare := x.Runner.(Bare); bare {
		bundle, delivery, home = a.Bundle, a.Delivery, filepath.Dir(a.Bundle)
	}
	limits := x.Limits
	limits.Wall = a.Limit
	spec := sandbox.Spec{
		Argv: []string{"/bin/sh", "-c", x.Command}, Dir: bundle, Network: x.Network, Limits: limits,
		Env: append([]string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + home,
			"GUILD_BUNDLE=" + bundle, "GUILD_DELIVERY=" + delivery, "GUILD_JOB=" + a.Job,
			fmt.Sprint("GUILD_TRACE=", sandbox.ResultsFD),
		}, x.Env...),
		Mounts: []sandbox.Mount{
			{Host: a.Bundle, Inside: insideBundle, Writable: true},
			{Host: a.Delivery, Inside: insideDelivery, Writable: true},
		},
	}
	for _, dir := range x.Mounts {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Host: dir, Inside: dir})
	}
	if a.Inputs != "" {
		x.give(&spec, a, bundle)
	}
	if a.Vault != "" {
		x.show(&spec, a.Vault)
	}
	return spec
}

// give lets the command read what was given beside the bundle, which may lie in the bundle itself.
func (x Exec) give(spec *sandbox.Spec, a Assignment, bundle string) {
	inputs := a.Inputs
	_, bare := x.Runner.(Bare)
	if within, err := filepath.Rel(a.Bundle, a.Inputs); err == nil && filepath.IsLocal(within) {
		inputs = filepath.Join(bundle, within)
	} else if !bare {
		inputs = insideInputs
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Host: a.Inputs, Inside: insideInputs})
	}
	spec.Env = append(spec.Env, "GUILD_INPUTS="+inputs)
}

// show lets the command read the credentials, and change nothing about them.
func (x Exec) show(spec *sandbox.Spec, credentials string) {
	if _, bare := x.Runner.(Bare); !bare {
		spec.Copies = []sandbox.Copy{{Host: filepath.Dir(credentials), Inside: insideVault, ReadOnly: true}}
		credentials = path.Join(insideVault, filepath.Base(credentials))
	}
	spec.Env = append(spec.Env, "GUILD_VAULT="+credentials)
}

// lines hands each line written to say, at its full length. Closing it ends done once all were handed over.
func lines(say func(string)) (w io.WriteCloser, done <-chan struct{}) {
	r, w := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		scan := bufio.NewScanner(r)
		for scan.Scan() {
			if line := strings.TrimSpace(scan.Text()); line != "" {
				say(line)
			}
		}
		io.Copy(io.Discard, r) // a line too long: the rest is not told, but the worker must not block on it
	}()
	return w, ended
}

// tail keeps the last of what a worker writes to its standard error: the provider's own affair.
type tail struct{ last []byte }

// maxTail bounds the bytes of it that are shown. Twice as many are kept, so that a secret at the cut is found whole.
const maxTail = 2000

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	t.last = t.last[max(0, len(t.last)-2*maxTail):]
	return len(p), nil
}

func (t *tail) shown(hide func(string) string) string {
	text := hide(string(t.last))
	return strings.TrimSpace(strings.ToValidUTF8(text[max(0, len(text)-maxTail):], ""))
}

// Resolve makes the program of a command findable from inside the sandbox: a program named by a path is named
// by its absolute path, which is returned too, for it must be mounted.
func Resolve(command string) (resolved, program string, err error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(command), " ")
	if word == "" {
		return "", "", errors.New("the command is empty")
	}
	if err := checkNames(rest); err != nil {
		return "", "", err
	}
	if !strings.ContainsRune(word, '/') {
		return command, "", nil
	}
	if program, err = filepath.Abs(word); err != nil {
		return "", "", fmt.Errorf("the command %q: %w", word, err)
	}
	info, err := os.Stat(program)
	if err != nil {
		return "", "", fmt.Errorf("the command %q: %w", word, err)
	}
	if info.IsDir() {
		return "", "", fmt.Errorf("the command %q is a directory", word)
	}
	return strings.TrimSpace(quote(program) + " " + rest), program, nil
}

// NameError is a word of a command that means a file of the owner's here, and one of the customer's where the
// command runs.
type NameError struct{ Word string }

func (e *NameError) Error() string {
	return fmt.Sprintf("%q is a file here, but the command runs in the customer's bundle, where that name is the customer's", e.Word)
}

// Hint says what to do instead.
func (e *NameError) Hint() string {
	return "make it a program and name that by its path, as --exec ./worker.sh: its own directory is what a worker sees of yours"
}

// checkNames refuses arguments that would run the customer's file of a name instead of the owner's.
func checkNames(arguments string) error {
	for word := range strings.FieldsSeq(arguments) {
		if info, err := os.Stat(word); err == nil && !info.IsDir() && !filepath.IsAbs(word) {
			return &NameError{word}
		}
	}
	return nil
}

// quote makes a path one word for the shell.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }
