package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fiatjaf.com/nostr"
)

const marksEvery = time.Second // least time between two writes of the file

// Marks holds the watermarks: how far each subscription was read at each relay. If a mark is too old, some events are read
// again, and nothing else happens. So the file is written at most once a second, and an unreadable file counts as empty. The
// zero value keeps the marks in memory.
type Marks struct {
	path string

	mu     sync.Mutex
	marks  map[string]map[string]nostr.Timestamp // by relay and subscription
	timer  *time.Timer                           // set while changes are not written
	closed bool
	err    error // of the last write
}

// OpenWatermarks reads the marks from a file, which need not exist. Close writes the last changes.
func OpenWatermarks(path string) (*Marks, error) {
	m := &Marks{path: path}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watermarks: %w", err)
	}
	if err := json.Unmarshal(b, &m.marks); err != nil {
		m.marks = nil
	}
	return m, nil
}

// Get returns the mark of a subscription at a relay, 0 if there is none.
func (m *Marks) Get(url, sub string) nostr.Timestamp {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[url][sub]
}

// Set moves a mark forward. It never moves one back.
func (m *Marks) Set(url, sub string, t nostr.Timestamp) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t <= m.marks[url][sub] {
		return
	}
	if m.marks == nil {
		m.marks = make(map[string]map[string]nostr.Timestamp)
	}
	if m.marks[url] == nil {
		m.marks[url] = make(map[string]nostr.Timestamp)
	}
	m.marks[url][sub] = t
	m.soon()
}

// soon schedules a write of the file. The caller holds m.mu.
func (m *Marks) soon() {
	if m.path != "" && m.timer == nil && !m.closed {
		m.timer = time.AfterFunc(marksEvery, m.flush)
	}
}

// Forget drops the mark of a subscription at a relay.
func (m *Marks) Forget(url, sub string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.marks[url], sub)
	if len(m.marks[url]) == 0 {
		delete(m.marks, url)
	}
	m.soon()
}

// Rewind moves later marks back to t, at all relays, for the subscriptions that match. Events since t are read again; with 0
// all are.
func (m *Marks) Rewind(match func(sub string) bool, t nostr.Timestamp) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, subs := range m.marks {
		for sub, mark := range subs {
			switch {
			case !match(sub) || mark <= t:
			case t == 0:
				delete(subs, sub)
			default:
				subs[sub] = t
			}
		}
	}
	m.soon()
}

// Close writes the last changes.
func (m *Marks) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.timer != nil {
		m.timer.Stop()
		m.write()
	}
	return m.err
}

func (m *Marks) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.write()
	}
}

// write replaces the file. It does not sync it: after a crash the file before does as well.
func (m *Marks) write() {
	m.timer = nil
	if err := m.replace(); err != nil {
		m.err = fmt.Errorf("watermarks: %w", err)
		return
	}
	m.err = nil
}

func (m *Marks) replace() error {
	b, err := json.Marshal(m.marks)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(m.path), filepath.Base(m.path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), m.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
