package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/key"
	"guild/internal/sandbox/tiers"
)

const (
	lowDisk    = 1 << 30         // bytes free under which doctor warns
	noDisk     = 64 << 20        // and under which jobs are refused
	clockSlack = time.Minute     // how far the clock may be off
	relayWait  = 5 * time.Second // for one relay to answer
)

func checkIdentity(c config.Config) finding {
	if os.Getenv("NOSTR_SECRET_KEY") != "" {
		return finding{"identity", stateOK, "from NOSTR_SECRET_KEY", ""}
	}
	form, err := key.Form(c.Paths.Data)
	if err != nil {
		return finding{"identity", stateFailed, err.Error(), hintOf(err)}
	}
	return finding{"identity", stateOK, form + " in " + filepath.Join(c.Paths.Data, key.File), ""}
}

func checkJournal(c config.Config) finding {
	if _, err := os.Stat(c.JournalDir()); err != nil {
		return finding{"journal", stateFailed, "none in " + c.JournalDir(), "guild init"}
	}
	return finding{"journal", stateOK, c.JournalDir(), ""}
}

// checkSandbox also lists what the sandbox does less well here than it should.
func checkSandbox(ctx context.Context, c config.Config) []finding {
	_, caps, err := tiers.Pick(ctx, c.Judge.Tier)
	if err != nil {
		return []finding{{"sandbox", stateFailed, err.Error(), hintOf(err)}}
	}
	all := []finding{{"sandbox", stateOK, caps.Tier, ""}}
	for _, gap := range caps.Gaps {
		all = append(all, finding{"sandbox", stateWarning, gap, ""})
	}
	return all
}

func checkProgram(check, program, remedy string) finding {
	path, err := exec.LookPath(program)
	if err != nil {
		return finding{check, stateFailed, program + " is not installed", remedy}
	}
	return finding{check, stateOK, path, ""}
}

func checkDisk(c config.Config) finding {
	dir := existing(c.Paths.Data)
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return finding{"disk", stateFailed, dir + ": " + err.Error(), "choose another --home"}
	}
	free := int64(s.Bavail) * s.Bsize
	f := finding{"disk", stateOK, fmt.Sprintf("%d MB free for %s", free>>20, c.Paths.Data), "free some space"}
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

// checkClock compares the clock with our own files: what was written before cannot lie in the future.
func (p *program) checkClock(c config.Config) finding {
	now := p.now()
	for _, path := range []string{filepath.Join(c.Paths.Data, key.File), c.HighWater(), c.JournalDir()} {
		info, err := os.Stat(path)
		if err == nil && info.ModTime().Sub(now) > clockSlack {
			return finding{"clock", stateFailed, fmt.Sprintf("%s is before %s was written", now.Format(time.DateTime), path), "set the clock right"}
		}
	}
	return finding{"clock", stateOK, now.UTC().Format(time.RFC3339), ""}
}

func checkNode(ctx context.Context, c config.Config) finding {
	s, err := control.NodeStatus.Call(ctx, control.Dial(c.Socket()))
	switch {
	case errors.Is(err, control.ErrNotRunning):
		return finding{"node", stateOK, "none is running; the socket will be " + c.Socket(), ""}
	case err != nil:
		return finding{"node", stateFailed, err.Error(), "remove " + c.Socket() + " if no node runs"}
	}
	if n := len(s.Quarantined); n > 0 {
		return finding{"node", stateWarning, fmt.Sprintf("%d guards lost entries and are in quarantine", n), "guild status lists them"}
	}
	return finding{"node", stateOK, s.Npub + " on " + c.Socket(), ""}
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
	conn, resp, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return finding{"relay", stateWarning, url + ": " + err.Error(), "check the address and the network"}
	}
	conn.CloseNow()
	if off := p.offset(resp); off > clockSlack || off < -clockSlack {
		return finding{"relay", stateWarning, fmt.Sprintf("%s: its clock and ours differ by %v", url, off.Round(time.Second)), "set the clock right"}
	}
	return finding{"relay", stateOK, url, ""}
}

// offset is how far our clock is ahead of the one that answered, as far as it says.
func (p *program) offset(resp *http.Response) time.Duration {
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0
	}
	return p.now().Sub(at)
}
