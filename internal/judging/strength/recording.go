package strength

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// maxRecording limits what is kept of a run, in bytes. A longer run is not examined.
const maxRecording = 64 << 20

// Recording holds what an examiner and a subject said to each other in one run of the tests.
type Recording struct {
	mu     sync.Mutex
	frames []passed
	size   int
	began  time.Time
	took   time.Duration
}

// Took returns how long the run took, from its first message or earlier to its end.
func (r *Recording) Took() time.Duration { return r.took }

// passed is a frame on its way.
type passed struct {
	raw     []byte
	subject bool          // from the subject
	at      time.Duration // since the recording began
}

// Record passes frames between an examiner and a subject until either ends, and keeps them. It answers the requests
// that mark the tests itself, so that the subject never learns of them. It closes both connections.
func Record(examiner, subject *os.File) (*Recording, error) {
	e, err := connection(examiner)
	if err != nil {
		return nil, errors.Join(err, subject.Close())
	}
	s, err := connection(subject)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	defer e.Close()
	defer s.Close()
	r := &Recording{began: time.Now()}
	var toExaminer sync.Mutex
	var both sync.WaitGroup
	both.Go(func() {
		for {
			raw, err := readFrame(e)
			if err != nil {
				break
			}
			r.keep(raw, false)
			number, isMark := mark(raw)
			if !isMark {
				if writeFrame(s, raw) != nil {
					break
				}
				continue
			}
			reply, err := frame{kind: answer, number: number, value: false}.encode()
			if err != nil {
				break
			}
			toExaminer.Lock()
			err = writeFrame(e, reply)
			toExaminer.Unlock()
			if err != nil {
				break
			}
		}
		_ = s.Close() // the subject ends when it reads the end, or cannot write
	})
	both.Go(func() {
		for {
			raw, err := readFrame(s)
			var long longError
			if errors.As(err, &long) { // the examiner shall say so
				toExaminer.Lock()
				_, _ = e.Write(binary.BigEndian.AppendUint32(nil, uint32(long)))
				toExaminer.Unlock()
			}
			if err != nil {
				break
			}
			if !delivered(raw) {
				raw = []byte("[]") // the examiner shall say that this is no message
			}
			r.keep(raw, true)
			toExaminer.Lock()
			err = writeFrame(e, raw)
			toExaminer.Unlock()
			if err != nil {
				break
			}
		}
		_ = e.CloseWrite()
		_ = s.CloseRead()
	})
	both.Wait()
	r.took = time.Since(r.began)
	return r, nil
}

// delivered reports whether a frame is of a kind that a subject may send. Only the judge may end a run of a test.
func delivered(raw []byte) bool {
	const space = " \t\r\n"
	list, ok := bytes.CutPrefix(bytes.TrimLeft(raw, space), []byte("["))
	kind, _, more := bytes.Cut(list, []byte(","))
	kind = bytes.Trim(kind, space)
	return ok && more && len(kind) == 1 && kind[0] >= '0'+request && kind[0] <= '0'+raised
}

// connection makes a connection of a socket's file, which it closes.
func connection(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

func (r *Recording) keep(raw []byte, subject bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size += len(raw); r.size <= maxRecording {
		r.frames = append(r.frames, passed{raw, subject, time.Since(r.began)})
	}
}

// Requests that mark the tests.
const (
	opTest  = "test"  // a test begins
	opAgain = "again" // may a process run it before it runs?
	opDone  = "done"  // the process has run it
	opMore  = "more"  // may the process run it once more?
	opDied  = "died"  // the process has ended, perhaps too early, or because a run took too long
)

var marks = words("", opTest, opAgain, opDone, opMore, opDied)

// mark returns the number of a request that only the judge answers. It reads no more of a frame than it must.
func mark(raw []byte) (number int64, ok bool) {
	if !bytes.HasPrefix(raw, []byte("[0,")) {
		return 0, false
	}
	parts := strings.SplitN(string(raw[:min(len(raw), 100)]), ",", 5)
	if len(parts) < 5 {
		return 0, false
	}
	if !marks[strings.Trim(parts[3], `"`)] {
		return 0, false
	}
	return integer(json.Number(parts[1]))
}
