// Package hooks lets other people's tools report to Nook what happens in them. It installs hooks in git, Claude Code and Codex,
// reads what these tools and GitHub say, runs any other command between two reports, and keeps the reports in a spool until
// a node takes them. It owns no fact, and decides nothing about what an event earns.
//
// A hook never delays, breaks or prints into the tool that calls it. It writes one small file, and a failure to do so loses
// the report and nothing else.
package hooks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"guild/digest"
	"guild/internal/durable"
	"guild/nook"
)

// Config says what installed hooks run, and for whom they report.
type Config struct {
	Program []string // command line of the program up to its verb "hook", such as ["/usr/local/bin/guild", "nook"]
	AgentID string   // agent of the reported events
	Home    string   // directory with the spool, for git; $NOOK_HOME or $HOME/.nook if empty
}

// maxInput limits what a hook is given, in bytes. Claude Code reports the whole output of a tool.
const maxInput = 16 << 20

// Call is one call of a hook that this package installed.
type Call struct {
	Tool    string   // "claude-code", "codex" or "github"
	AgentID string   // agent of the reported events
	Args    []string // what the tool adds to the command: for codex an earlier notify command, and the notification

	Stdin  io.Reader                // the report of claude-code
	Getenv func(name string) string // CODEX_HOME, HOME; GITHUB_EVENT_PATH
	Now    time.Time
}

// Run turns the call into events and spools them. The caller of a hook ignores the error, which is for tests and people.
func (c Call) Run(to Spool) error {
	var events []nook.Event
	var report []byte
	var err error
	switch c.Tool {
	case "claude-code":
		if report, err = io.ReadAll(io.LimitReader(c.Stdin, maxInput)); err == nil {
			events, err = ClaudeCode(report, c.AgentID, c.Now)
		}
	case "codex":
		events, err = c.codex()
	case "github":
		if report, err = durable.ReadRegular(c.Getenv("GITHUB_EVENT_PATH"), maxInput); err == nil {
			events, err = GitHub(report, c.AgentID, c.Now)
		}
	default:
		return fmt.Errorf("no hook for %.80q: one of claude-code, codex, github", c.Tool)
	}
	errs := []error{err}
	for _, e := range events {
		errs = append(errs, to.Write(e))
	}
	return errors.Join(errs...)
}

// codex also runs the notify command that was there before ours, without waiting for it.
func (c Call) codex() ([]nook.Event, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("codex: no notification")
	}
	var started error
	if before := c.Args[:len(c.Args)-1]; len(before) > 1 && before[0] == "--" {
		cmd := exec.Command(before[1], append(slices.Clone(before[2:]), c.Args[len(before)])...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if started = cmd.Start(); started == nil {
			started = cmd.Process.Release()
		}
	}
	home := cmp.Or(c.Getenv("CODEX_HOME"), filepath.Join(c.Getenv("HOME"), ".codex"))
	events, err := Codex([]byte(c.Args[len(c.Args)-1]), c.AgentID, home, c.Now)
	return events, errors.Join(started, err)
}

// GitHub reads the payload of a GitHub event, as in the file $GITHUB_EVENT_PATH. A pull request that is opened and a release
// that is published are events; anything else is none.
func GitHub(payload []byte, agentID string, now time.Time) ([]nook.Event, error) {
	var p struct {
		Action string `json:"action"`
		Pull   *struct {
			URL string `json:"html_url"`
		} `json:"pull_request"`
		Release *struct {
			URL string `json:"html_url"`
		} `json:"release"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, fmt.Errorf("GitHub's event: %w", err)
	}
	switch {
	case p.Action == "opened" && p.Pull != nil && p.Pull.URL != "":
		return []nook.Event{pullRequest(p.Pull.URL, agentID, now)}, nil
	case p.Action == "published" && p.Release != nil && p.Release.URL != "":
		return []nook.Event{{ID: derived("release", p.Release.URL), Type: nook.TypeCompleted, AgentID: agentID, Trigger: nook.TriggerRelease, Timestamp: now.UnixMilli()}}, nil
	}
	return nil, nil
}

// pullRequest returns the event of an opened pull request. Its id is the same whoever reports it.
func pullRequest(url, agentID string, now time.Time) nook.Event {
	return nook.Event{ID: derived("pr", url), Type: nook.TypeCompleted, AgentID: agentID, Trigger: nook.TriggerPR, Timestamp: now.UnixMilli()}
}

// derived returns an id that is the same whenever the same thing is reported again.
func derived(prefix string, parts ...string) string {
	return prefix + "-" + digest.Sum([]byte(strings.Join(parts, "\x00"))).Hex()[:32]
}

// quoted returns words as one command line for a shell.
func quoted(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}

// replace writes a file atomically, through a link to it, and keeps its mode, or uses the given one for a new file.
func replace(path string, b []byte, mode fs.FileMode) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return place(path, b, mode)
}

// place writes a file atomically, in the place of whatever is there.
func place(path string, b []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// settings reads a tool's settings, which may be a link, of at most 4 MiB. A missing file is empty.
func settings(path string) (b []byte, err error) {
	if path, err = filepath.EvalSymlinks(path); err == nil {
		b, err = durable.ReadRegular(path, 4<<20)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return b, err
}

// change replaces a tool's settings by what edit makes of them, and reports whether that changed anything. Settings that end
// up empty are removed if remove is set.
func change(path string, remove bool, edit func([]byte) ([]byte, error)) (bool, error) {
	old, err := settings(path)
	if err != nil {
		return false, err
	}
	edited, err := edit(slices.Clone(old))
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if string(edited) == string(old) {
		return false, nil
	}
	if remove && strings.Trim(string(edited), "{} \r\n") == "" {
		return true, os.Remove(path)
	}
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	return true, cmp.Or(err, replace(path, edited, 0o600))
}
