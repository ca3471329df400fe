package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/judging/sandbox/tiers"
)

const (
	lowDisk    = 1 << 30         // bytes free under which doctor warns
	noDisk     = 64 << 20        // and under which jobs are refused
	clockSlack = time.Minute     // how far the clock may be off
	relayWait  = 5 * time.Second // for one relay to answer
)

func checkConfig(c config.Config, err error) finding {
	if err != nil {
		remedy := cmp.Or(hintOf(err), "correct it there; the checks below are with the defaults")
		return finding{Check: "config", State: stateFailed, Text: err.Error(), Remedy: remedy}
	}
	if _, err := os.Stat(c.Paths.Config); err != nil {
		text := "none in " + c.Paths.Config + ", so that the defaults hold"
		return finding{Check: "config", State: stateWarning, Text: text, Remedy: "guild init writes one"}
	}
	return finding{Check: "config", State: stateOK, Text: c.Paths.Config}
}

// checkIdentity checks that there is a key, and that the home is its own. It asks for no passphrase and no remote signer.
func checkIdentity(c config.Config) finding {
	f := finding{Check: "identity", State: stateOK}
	fail := func(err error, remedy string) finding {
		return finding{Check: "identity", State: stateFailed, Text: err.Error(), Remedy: cmp.Or(hintOf(err), remedy)}
	}
	text := os.Getenv("NOSTR_SECRET_KEY")
	if text != "" {
		f.Text = "from NOSTR_SECRET_KEY"
	} else {
		form, err := key.Form(c.Paths.Data)
		if err != nil {
			return fail(err, "restore it from a copy, or move it away and make another with guild init")
		}
		f.Text = form + " in " + filepath.Join(c.Paths.Data, key.File)
		if form != "nsec" {
			return f // its public key is not known without a passphrase or the remote signer
		}
	}
	id, err := key.Load(c.Paths.Data, askNobody, os.Getenv)
	if err != nil {
		return fail(err, "set it to nsec1… or 64 hex digits, or unset it")
	}
	if err := key.CheckOwner(c.Paths.Data, id.PubKey); err != nil {
		return fail(err, "restore that file from a copy, or remove it")
	}
	return f
}

func askNobody() ([]byte, error) { return nil, cli.ErrNoTerminal }

func checkJournal(c config.Config) finding {
	if _, err := os.Stat(c.JournalDir()); err != nil {
		return finding{Check: "journal", State: stateFailed, Text: "none in " + c.JournalDir(), Remedy: "guild init"}
	}
	return finding{Check: "journal", State: stateOK, Text: c.JournalDir()}
}

// checkSandbox also lists the gaps of the sandbox on this machine.
func checkSandbox(ctx context.Context, c config.Config) []finding {
	_, caps, err := tiers.Pick(ctx, c.Judge.Tier)
	if err != nil {
		return []finding{{"sandbox", stateFailed, err.Error(), hintOf(err)}}
	}
	all := []finding{{"sandbox", stateOK, caps.Tier, ""}}
	for _, gap := range caps.Gaps {
		all = append(all, finding{Check: "sandbox", State: stateWarning, Text: gap, Remedy: "guild judge doctor tries every sandbox, and says what each lacks"})
	}
	return all
}

// checkPrograms looks for the tools that judge, where there is a sandbox to judge in. Most tasks need the first two.
func checkPrograms() []finding {
	var all []finding
	type tool struct {
		check, program string
		state, remedy  string // if it is missing
	}
	tools := []tool{
		{"python", "python3", stateFailed, "apt-get install python3"},
		{"pytest", "pytest", stateFailed, "apt-get install python3-pytest"},
		{"git", "git", stateWarning, "guild hire of a project needs it: apt-get install git"},
		{"node", "node", stateWarning, "criteria in JavaScript need it: apt-get install nodejs"},
		{"go", "go", stateWarning, "criteria in Go need it: https://go.dev/dl"},
	}
	if runtime.GOOS == "darwin" {
		tools = []tool{{"git", "git", stateWarning, "guild hire of a project needs it: xcode-select --install"}}
	}
	for _, tool := range tools {
		f := finding{Check: tool.check, State: tool.state, Text: tool.program + " is not installed", Remedy: tool.remedy}
		if path, err := exec.LookPath(tool.program); err == nil {
			f = finding{Check: tool.check, State: stateOK, Text: path}
		}
		all = append(all, f)
	}
	return all
}

func checkDisk(c config.Config) finding {
	dir := existing(c.Paths.Data)
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return finding{Check: "disk", State: stateFailed, Text: dir + ": " + err.Error(), Remedy: "choose another --home"}
	}
	free := int64(s.Bavail) * int64(s.Bsize)
	f := finding{Check: "disk", State: stateOK, Text: fmt.Sprintf("%d MB free for %s", free>>20, c.Paths.Data), Remedy: "free some space"}
	switch {
	case free < noDisk:
		f.State = stateFailed
	case free < lowDisk:
		f.State = stateWarning
	default:
		f.Remedy = ""
	}
	return f
}

// existing is path, or its nearest parent that is there.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// checkClock compares the clock with the times of the node's files, which cannot lie in the future.
func (p *program) checkClock(c config.Config) finding {
	now := p.now()
	for _, path := range []string{filepath.Join(c.Paths.Data, key.File), c.HighWater(), c.JournalDir()} {
		info, err := os.Stat(path)
		if err == nil && info.ModTime().Sub(now) > clockSlack {
			return finding{Check: "clock", State: stateFailed, Text: fmt.Sprintf("%s is before %s was written", now.Format(time.DateTime), path), Remedy: "set the clock right"}
		}
	}
	return finding{Check: "clock", State: stateOK, Text: now.UTC().Format(time.RFC3339)}
}

func checkNode(ctx context.Context, c config.Config) finding {
	s, err := control.NodeStatus.Call(ctx, control.Dial(c.Socket()))
	switch {
	case errors.Is(err, control.ErrNotRunning):
		return finding{Check: "node", State: stateOK, Text: "none is running"}
	case err != nil:
		return finding{Check: "node", State: stateFailed, Text: err.Error(), Remedy: "remove " + c.Socket() + " if no node runs"}
	}
	if n := len(s.Quarantined); n > 0 {
		return finding{Check: "node", State: stateWarning, Text: fmt.Sprintf("%d guards lost entries and are in quarantine", n), Remedy: "guild status lists them"}
	}
	return finding{Check: "node", State: stateOK, Text: s.Npub + " on " + c.Socket()}
}

func (p *program) checkRelays(ctx context.Context, c config.Config) []finding {
	if len(c.Relays) == 0 {
		return []finding{{"relays", stateOK, "none configured: the embedded one is used", ""}}
	}
	var all []finding
	reached := false
	for _, u := range c.Relays {
		f := p.checkRelay(ctx, u)
		reached = reached || f.State == stateOK
		all = append(all, f)
	}
	if !reached && !c.Embeds() {
		all[0].State = stateFailed
	}
	return all
}

// checkRelay opens a connection and compares the relay's clock with ours.
func (p *program) checkRelay(ctx context.Context, url string) finding {
	ctx, cancel := context.WithTimeout(ctx, relayWait)
	defer cancel()
	asked := p.now()
	conn, resp, err := websocket.Dial(ctx, url, nil)
	took := p.now().Sub(asked).Round(time.Millisecond)
	if err != nil {
		return finding{Check: "relay", State: stateWarning, Text: url + ": " + err.Error(), Remedy: "check the address and the network"}
	}
	conn.CloseNow()
	if off := p.offset(resp); off > clockSlack || off < -clockSlack {
		return finding{Check: "relay", State: stateWarning, Text: fmt.Sprintf("%s: its clock and ours differ by %v", url, off.Round(time.Second)), Remedy: "set the clock right"}
	}
	return finding{Check: "relay", State: stateOK, Text: fmt.Sprintf("%s, connected in %v", url, max(took, time.Millisecond))}
}

// offset returns by how much our clock is ahead of that of an HTTP server, by its answer.
func (p *program) offset(resp *http.Response) time.Duration {
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0
	}
	return p.now().Sub(at)
}
