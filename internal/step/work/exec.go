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

	"guild/internal/hand/model"
	"guild/internal/judging/sandbox"
	"guild/replay/session"
)

// Exec is a worker that runs a command, such as an agent's. The command runs in the unpacked bundle. Its environment has
// GUILD_BUNDLE, GUILD_DELIVERY and GUILD_JOB; GUILD_INPUTS if there are inputs beside the bundle; GUILD_HINTS and other
// variables (addHints) if the customer gives advice; GUILD_BEHAVIOUR, GUILD_FILES and GUILD_TOOLS if it works as an agent of
// this node (addBehaviour); GUILD_VAULT if credentials came with the request; GUILD_TRACE, the
// number of a descriptor for a trace of its work; GUILD_PROMPT, the task as a text for an agent; and Env. With an API it
// also has GUILD_API_URL and GUILD_API_TOKEN. All other variables are cleared.
type Exec struct {
	Command string         // for /bin/sh -c
	Env     []string       // "NAME=value" that the owner passes on; SecretsIn finds the secrets in it
	Mounts  []string       // host directories that it may read, at the same path
	Network bool           // allowed
	Runner  sandbox.Runner // Bare only if the owner said so
	Limits  sandbox.Limits // Wall is replaced by the assignment's
	Trace   session.Format // of the lines on its standard output; text for people if empty
	API     *model.API     // that it may speak to without the key, at GUILD_API_URL; nil for none
	Prompt  bool           // it wants the task as a text (GUILD_PROMPT), and the name of the model
	Model   string         // its name (GUILD_MODEL); none if empty
	Login   *Login         // a file that it may read in its home directory; nil for none

	// Narrow returns the variables by which an agent gets only these tools, and the names that no tool of the agent has. It
	// fails if the agent cannot be limited. nil for a command that is not an agent's.
	Narrow func(tools []string) (env, unknown []string, err error)

	Log *slog.Logger // gets the tokens that the command used; slog.Default() if nil
}

// The command's directories inside the sandbox.
const (
	insideBundle   = "/box/bundle"
	insideDelivery = "/box/delivery"
	insideInputs   = "/box/inputs"
	insideHints    = "/box/hints"
	insideVault    = sandbox.Home + "/vault" // a copy in the sandbox's own memory
)

func (a Assignment) hide(text string) string {
	if a.Hide == nil {
		return text
	}
	return a.Hide(text)
}

// Do runs the command. When it returns, all processes that the command started have ended too.
func (x Exec) Do(ctx context.Context, a Assignment) error {
	spec := x.spec(a)
	var stderr tail
	heard := x.listen(a)
	result, err := x.run(ctx, a, spec, heard.streams(strings.NewReader(""), &stderr))
	heard.end(ctx, result, err)
	refused, ok := errors.AsType[*FailedError](err)
	switch {
	case ok:
		return refused
	case err != nil:
		return fmt.Errorf("the sandbox: %w", err)
	case ctx.Err() != nil:
		return ctx.Err()
	case result.Killed != "":
		return &FailedError{"the worker went over its limit: " + string(result.Killed), stderr.shown(a.hide)}
	case result.Exit != 0:
		return &FailedError{fmt.Sprintf("the worker failed with exit code %d", result.Exit), stderr.shown(a.hide)}
	}
	return nil
}

// run runs the command with what an agent needs in addition: the prompt, its login, and its API.
func (x Exec) run(ctx context.Context, a Assignment, spec sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	if err := cmp.Or(x.addPrompt(&spec, a), x.addBehaviour(&spec, a)); err != nil {
		return sandbox.Result{}, err
	}
	if x.Login != nil {
		dir, err := os.MkdirTemp(filepath.Dir(a.Bundle), "login-")
		if err != nil {
			return sandbox.Result{}, err
		}
		defer os.RemoveAll(dir)
		if err := x.Login.copyTo(dir, &spec); err != nil {
			return sandbox.Result{}, err
		}
	}
	stop, err := x.serveAPI(&spec, &streams)
	if err != nil {
		return sandbox.Result{}, err
	}
	result, err := x.Runner.Run(ctx, spec, streams)
	x.recordUsage(a, stop(), streams.Stderr)
	return result, err
}

// FailedError reports a worker that failed. Error returns only what the customer reads; Work logs the rest.
type FailedError struct {
	Text   string // for the customer
	Stderr string // for the owner, without secrets: the end of the standard error, or why a model did not answer
}

// Error implements error.
func (e *FailedError) Error() string { return e.Text }

// Find reports whether the command's program exists inside the sandbox. It looks at the first word only.
func (x Exec) Find(ctx context.Context) (found bool, err error) {
	word, _, _ := strings.Cut(strings.TrimSpace(x.Command), " ")
	if strings.ContainsAny(word, "=(){};&|<>$`") {
		return true, nil // shell syntax
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
			"PATH=" + usualPath, "LANG=C.UTF-8", "HOME=" + home,
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
		x.addInputs(&spec, a, bundle)
	}
	if a.Hints != "" {
		x.addHints(&spec, a)
	}
	if a.Vault != "" {
		x.addVault(&spec, a.Vault)
	}
	return spec
}

// addInputs lets the command read the inputs, which are in a directory of their own or in the bundle.
func (x Exec) addInputs(spec *sandbox.Spec, a Assignment, bundle string) {
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

// addVault lets the command read the credentials. In a sandbox it cannot change them.
func (x Exec) addVault(spec *sandbox.Spec, credentials string) {
	if _, bare := x.Runner.(Bare); !bare {
		spec.Copies = []sandbox.Copy{{Host: filepath.Dir(credentials), Inside: insideVault, ReadOnly: true}}
		credentials = path.Join(insideVault, filepath.Base(credentials))
	}
	spec.Env = append(spec.Env, "GUILD_VAULT="+credentials)
}

// lines returns a writer that passes each line to say, uncut. Once it is closed and all lines were passed, done is closed.
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
		io.Copy(io.Discard, r) // after a line that is too long; a worker that writes on must not block
	}()
	return w, ended
}

// tail keeps the end of a worker's standard error, for the provider's log.
type tail struct{ last []byte }

// maxTail is the number of bytes of it that are shown. Twice as many are kept, so that a secret at the cut is found.
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

// Resolve replaces the program of a command by its absolute path if it is named by a path, so that it is found from inside
// the sandbox. It returns that path too, which must be mounted; "" for a program that is found by PATH.
func Resolve(command string) (resolved, program string, err error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(command), " ")
	if word == "" {
		return "", "", &CommandError{errors.New("the command is empty"), "name the program that does the work"}
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
	switch {
	case err != nil:
		return "", "", &CommandError{fmt.Errorf("the command %q: %w", word, err), "name a program that is there, relative to this directory or by its full path"}
	case info.IsDir():
		return "", "", &CommandError{fmt.Errorf("the command %q is a directory", word), "name a program in it"}
	case info.Mode()&0o111 == 0:
		return "", "", &CommandError{fmt.Errorf("the command %q is not executable", word), "chmod +x " + word}
	}
	return strings.TrimSpace(quote(program) + " " + rest), program, nil
}

// CommandError reports a command that cannot be run as it was given.
type CommandError struct {
	Err  error
	hint string
}

func (e *CommandError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *CommandError) Unwrap() error { return e.Err }

// Hint says what to do instead.
func (e *CommandError) Hint() string { return e.hint }

// checkNames refuses arguments that name a file in our working directory. The command runs in the customer's bundle, where
// the same name would be the customer's file.
func checkNames(arguments string) error {
	for word := range strings.FieldsSeq(arguments) {
		if info, err := os.Stat(word); err == nil && !info.IsDir() && !filepath.IsAbs(word) {
			return &CommandError{fmt.Errorf("%q is a file here, but the command runs in the customer's bundle, where that name is the customer's", word),
				"make it a program and name that by its path, as --exec ./worker.sh: its own directory is what a worker sees of yours"}
		}
	}
	return nil
}

// quote makes a path one word for the shell.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }
