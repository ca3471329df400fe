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
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/nip90"
	"guild/nipae"
)

// Behaviour has the prompt, tools and files with which an agent of this node does one request (NIP-AE). Package behaviour composes it, and the workers enforce it.
type Behaviour struct {
	ID      guild.Hash // canonical hash of the composed behaviour; goes into announcement, result, trajectory and receipt
	Agent   nostr.PubKey
	Prompt  string     // system prompt
	Tools   []string   // exactly these; nil means all that the worker has
	Sources []nostr.ID // the events that it is made of
	Files   string     // directory with the definition's files, checked against their hashes; "" for none
}

// Limits of a behaviour.
const (
	maxPromptText = 64 << 10 // bytes; the agents take it as one argument of a program
	maxTools      = 500
)

// cannotAct tells a customer that a worker cannot do a request with the behaviour of its agent.
const cannotAct = "the agent cannot do this request"

// without returns how many of the nudges that a customer asks for are not part of the behaviour.
func (b *Behaviour) without(asked []nostr.ID) (left int) {
	for _, id := range asked {
		if b == nil || !slices.Contains(b.Sources, id) {
			left++
		}
	}
	return left
}

// check returns why a worker cannot do a request with the behaviour, nil for no behaviour.
func (b *Behaviour) check() error {
	switch {
	case b == nil:
		return nil
	case b.ID.IsZero():
		return errors.New("the agent's behaviour has no id")
	case len(b.Prompt) > maxPromptText || strings.ContainsRune(b.Prompt, 0):
		return fmt.Errorf("the agent's prompt has more than %d bytes, or one that is zero", maxPromptText)
	case len(b.Tools) > maxTools:
		return fmt.Errorf("the agent has %d tools, more than %d", len(b.Tools), maxTools)
	}
	for _, name := range b.Tools {
		if !nipae.IsTool(name) { // it may be a stranger's word, and becomes a variable and a flag
			return fmt.Errorf("the agent's tool %.80q: a name has letters, digits and _ - . : / @ + only", name)
		}
	}
	return nil
}

// behaviour returns the behaviour for a request, nil for a service without one.
func (s Service) behaviour(ctx context.Context, r nip90.Request) (*Behaviour, error) {
	if s.Behave == nil {
		return nil, nil
	}
	b, err := s.Behave(ctx, r)
	if err == nil {
		err = b.check()
	}
	return b, err
}

// id returns the behaviour's id as text, "" for no behaviour.
func (b *Behaviour) id() string {
	if b == nil {
		return ""
	}
	return b.ID.String()
}

// Names in the directory for a command that works with a behaviour.
const (
	promptFile   = "prompt.md"
	programsDir  = "bin" // links to the programs that the behaviour names
	insideAgent  = "/box/agent"
	insideFiles  = "/box/files"
	usualPath    = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	agentDirName = "agent"
	filesDirName = "files"
)

// addFiles lets the command read the definition's files. One that runs in no sandbox gets a copy, since requests share them.
func (x Exec) addFiles(spec *sandbox.Spec, a Assignment) error {
	if a.Behaviour.Files == "" {
		return nil
	}
	from, dir := a.Behaviour.Files, insideFiles
	if _, bare := x.Runner.(Bare); bare {
		dir = filepath.Join(filepath.Dir(a.Bundle), filesDirName)
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			return fmt.Errorf("copy the definition's files: %w", err)
		}
	} else {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Host: from, Inside: dir})
	}
	spec.Env = append(spec.Env, "GUILD_FILES="+dir)
	return nil
}

// addBehaviour gives the command the files, the prompt and the names of the tools. A command that is no agent's (Narrow) finds only the
// named programs on PATH, with its own program.
func (x Exec) addBehaviour(spec *sandbox.Spec, a Assignment) error {
	b := a.Behaviour
	if b == nil {
		return nil
	}
	if err := x.addFiles(spec, a); err != nil {
		return err
	}
	host := filepath.Join(filepath.Dir(a.Bundle), agentDirName)
	if err := os.MkdirAll(filepath.Join(host, programsDir), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(host, promptFile), []byte(b.Prompt), 0o644); err != nil {
		return err
	}
	dir := host
	if _, bare := x.Runner.(Bare); !bare {
		dir = insideAgent
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Host: host, Inside: insideAgent})
	}
	if b.Prompt != "" {
		spec.Env = append(spec.Env, "GUILD_BEHAVIOUR="+path.Join(dir, promptFile))
	}
	if b.Tools == nil {
		return nil
	}
	spec.Env = append(spec.Env, "GUILD_TOOLS="+strings.Join(b.Tools, " "))
	if x.Narrow != nil {
		env, unknown, err := x.Narrow(b.Tools)
		if err != nil {
			return &FailedError{Text: cannotAct, Stderr: err.Error()}
		}
		if len(unknown) > 0 {
			cmp.Or(x.Log, slog.Default()).Warn("the agent does not have all tools of its behaviour", "job", a.Job, "unknown", unknown)
		}
		spec.Env = append(spec.Env, env...)
		return nil
	}
	for _, name := range append(x.programs(), b.Tools...) {
		if err := link(name, filepath.Join(host, programsDir)); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(spec.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	spec.Env[i] = "PATH=" + path.Join(dir, programsDir)
	return nil
}

// link makes a link to a program of PATH in dir. A name that is no program's is left out.
func link(name, dir string) error {
	program := onPath(name)
	if program == "" {
		return nil
	}
	err := os.Symlink(program, filepath.Join(dir, name))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// onPath returns the path of a program that is found by its name, or "".
func onPath(name string) string {
	if strings.Contains(name, "/") || name == "." || name == ".." {
		return ""
	}
	for _, dir := range filepath.SplitList(usualPath) {
		program := filepath.Join(dir, name)
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return program
		}
	}
	return ""
}

// programs returns the names that the command itself needs on PATH: its first word, and the interpreter of a script that
// begins with "#!/usr/bin/env".
func (x Exec) programs() (names []string) {
	word, _, _ := strings.Cut(strings.TrimSpace(x.Command), " ")
	program := word
	if !strings.Contains(word, "/") {
		names, program = append(names, word), onPath(word)
	}
	f, err := os.Open(program)
	if err != nil {
		return names
	}
	defer f.Close()
	first, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	words := strings.Fields(strings.TrimPrefix(first, "#!"))
	if !strings.HasPrefix(first, "#!") || len(words) < 2 || path.Base(words[0]) != "env" {
		return names
	}
	i := slices.IndexFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") })
	if i < 0 {
		return names
	}
	return append(names, words[1+i])
}
