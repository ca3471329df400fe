package control_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/control"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// damagedDesk returns a client of a server over a journal of n entries and n rejected events. The block of a stream that
// holds them has a flipped byte in its middle, and the journal has none of it in memory.
func damagedDesk(t *testing.T, n int, stream string) *control.Client {
	t.Helper()
	dir := journaltest.Dir(t)
	if err := journal.Init(dir); err != nil {
		t.Fatal(err)
	}
	j := journaltest.Reopen(t, dir)
	for i := range n {
		about := guild.JobID{byte(i)}
		err := j.Do(t.Context(), fact.JobSubject(about), "", func(tx *journal.Tx) error {
			tx.Append(fact.JobCancelled{Job: about})
			return nil
		})
		if err == nil {
			err = j.Reject(t.Context(), "late", []byte(`{"from":"wss://a"}`))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = journaltest.Reopen(t, dir)
	time.Sleep(time.Minute) // nothing is kept in memory for so long
	path := filepath.Join(dir, "stream", "jetstream", "$G", "streams", stream, "msgs", "1.blk")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	client, hangUp := control.InProcess(t.Context(), control.NewServer(control.ServerConfig{Journal: j, Now: time.Now}))
	t.Cleanup(hangUp)
	return client
}

func TestDamagedStreamsEndWithAnError(t *testing.T) {
	for _, c := range []struct {
		stream  string
		entries int
		hint    string
		read    func(*testing.T, *control.Client) (int, error)
	}{
		{"FACTS", 7, "guild journal repair", readJournal},   // one by one
		{"FACTS", 100, "guild journal repair", readJournal}, // all at once
		{"REJECTED", 100, "guild journal repair", func(t *testing.T, c *control.Client) (int, error) {
			all, err := control.Rejected.Call(t.Context(), c)
			return len(all), err
		}},
	} {
		t.Run(fmt.Sprintf("%d of %s", c.entries, c.stream), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, err := c.read(t, damagedDesk(t, c.entries, c.stream))
				problem, ok := errors.AsType[*control.ProblemError](err)
				if !ok || n >= c.entries || !strings.Contains(problem.Error(), "cannot be read") || !strings.Contains(problem.Hint(), c.hint) {
					t.Errorf("got %d of %d lines and the error %v, want fewer and one that something cannot be read", n, c.entries, err)
				}
			})
		})
	}
}

func readJournal(t *testing.T, c *control.Client) (read int, err error) {
	for _, err = range control.Entries.Lines(t.Context(), c) {
		if err == nil {
			read++
		}
	}
	return read, err
}

func TestAnAbortedStreamIsAnError(t *testing.T) {
	for _, c := range []struct{ name, last, want string }{
		{"without a word", "", "unexpected EOF"},
		{"with a problem", `{"problem":{"error":"entry 4 cannot be read","hint":"repair it"}}`, "entry 4 cannot be read"},
		{"with half a problem", `{"problem":{"err`, "before it is complete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := node(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintln(w, `{"seq":1}`)
				fmt.Fprint(w, c.last)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}))
			read, err := readJournal(t, client)
			if read != 1 || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %d lines and the error %v, want 1 and %q", read, err, c.want)
			}
		})
	}
}
