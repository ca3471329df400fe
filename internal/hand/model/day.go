package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/durable"
)

// Day counts the tokens of a day (UTC) in a file, so that a restart does not begin anew. Several jobs and several processes
// may share the file. What was held for a request that a crash ended stays counted.
type Day struct {
	Path  string // of the file; its directory exists
	Limit int64  // tokens; DefaultDayTokens if zero
	Now   func() time.Time

	mu sync.Mutex
}

// counted is the content of the file.
type counted struct {
	Day    string `json:"day"` // as "2026-11-26"
	Tokens int64  `json:"tokens"`
}

// maxDayFile limits the file, in bytes.
const maxDayFile = 4096

// Tokens returns the count of the current day.
func (d *Day) Tokens() (int64, error) {
	c, err := d.read()
	return c.Tokens, err
}

// add adds tokens to the count, or takes them back if they are negative. With limited it returns a *LimitError, and adds
// nothing, if the count would go over the limit. It does nothing if d is nil.
func (d *Day) add(tokens int64, limited bool) error {
	if d == nil || tokens == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	unlock, err := d.lock()
	if err != nil {
		return err
	}
	defer unlock()
	c, err := d.read()
	if err != nil {
		return err
	}
	limit := cmp.Or(d.Limit, DefaultDayTokens)
	if limited && c.Tokens+tokens > limit {
		return &LimitError{Per: "day", Limit: limit, Used: c.Tokens, Asked: tokens}
	}
	c.Tokens = max(0, c.Tokens+tokens) // a request that was held yesterday may be settled today
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := durable.WriteBytes(d.Path, append(b, '\n')); err != nil {
		return fmt.Errorf("the count of tokens: %w", err)
	}
	return nil
}

// lock keeps other processes from the file. It locks the directory, because a write replaces the file.
func (d *Day) lock() (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(d.Path))
	if err != nil {
		return nil, fmt.Errorf("the count of tokens: %w", err)
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("the count of tokens: lock %s: %w", dir.Name(), err), dir.Close())
	}
	return func() { dir.Close() }, nil
}

// read returns the count of the current day, which is 0 if there is no file or it is of another day. A file that is not
// ours is an error: counting from 0 could cost the owner another day's limit.
func (d *Day) read() (counted, error) {
	today := counted{Day: d.Now().UTC().Format(time.DateOnly)}
	f, err := os.Open(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return today, nil
	}
	if err != nil {
		return today, fmt.Errorf("the count of tokens: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxDayFile))
	if err != nil {
		return today, fmt.Errorf("the count of tokens: %w", err)
	}
	var c counted
	if err := json.Unmarshal(b, &c); err != nil || c.Tokens < 0 {
		return today, fmt.Errorf("the count of tokens: %s is damaged: remove it to count this day from 0", d.Path)
	}
	if c.Day != today.Day {
		return today, nil
	}
	return c, nil
}
