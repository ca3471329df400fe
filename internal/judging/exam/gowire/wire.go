// Package gowire connects the two halves of a split examination of Go tests. It is compiled into both: into the tests,
// whose calls of generated stubs it sends, and into the delivery, whose functions it calls for them. The protocol is in
// docs/adr/0031-strength-by-running.md.
//
// Values are encoded and decoded by the static types of the declarations, which both sides have. What does not fit its
// type ends the conversation, as do frames that nobody asked for.
package gowire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strconv"
	"sync"
)

// Limits on what arrives.
const (
	maxFrame   = 16 << 20 // bytes of one frame
	maxTotal   = 1 << 30  // bytes of all frames
	maxNesting = 120
	maxStrays  = 100     // requests served at a time for threads that nobody waits in
	maxObjects = 1 << 20 // numbered things
	maxVain    = 10_000  // questions of a test to which the judge answers nothing more
)

// Kinds of frames.
const (
	request = 0
	answer  = 1
	raised  = 2
	over    = 3  // the judge ends this run
	nobody  = -1 // the thread of a request that no thread of the other side waits for
)

// gone says that the other side has ended.
const gone = "the connection was closed"

// malformed is the panic of a frame that the protocol does not allow.
type malformed string

// frame is one message, decoded but for its values.
type frame struct {
	kind, number, thread int
	op                   string
	args                 []any
	value                any
	extra                map[string]any
}

// parse reads a frame from its bytes.
func parse(b []byte) (frame, error) {
	if err := nesting(b); err != nil {
		return frame{}, err
	}
	var parts []any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&parts); err != nil || len(parts) < 4 {
		return frame{}, errors.New("a message that is not a frame")
	}
	if _, err := d.Token(); err != io.EOF {
		return frame{}, errors.New("a message with an end too many")
	}
	var f frame
	var ok, fine [3]bool
	f.kind, ok[0] = small(parts[0])
	f.number, ok[1] = small(parts[1])
	f.extra, ok[2] = parts[len(parts)-1].(map[string]any)
	switch {
	case f.kind == request && len(parts) == 6:
		f.thread, fine[0] = small(parts[2])
		f.op, fine[1] = parts[3].(string)
		f.args, fine[2] = parts[4].([]any)
	case f.kind > request && f.kind <= over && len(parts) == 4:
		f.value, fine = parts[2], [3]bool{true, true, true}
	}
	if all := [3]bool{true, true, true}; ok != all || fine != all {
		return frame{}, errors.New("a message of no known kind")
	}
	return f, nil
}

// nesting refuses JSON that is nested too deeply, before it is decoded.
func nesting(b []byte) error {
	depth, text := 0, false
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			depth++
			if depth > 2*maxNesting {
				return errors.New("a message is nested too deeply")
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return nil
}

// small reads an integer that a number of a frame or thing may be.
func small(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(string(n), 10, 48)
	return int(i), err == nil && i >= nobody
}

// waiter is a goroutine that waits for an answer, and serves requests for its thread meanwhile.
type waiter struct {
	number int
	take   func(frame) // decodes the answer
	frames chan arrival
}

// arrival is a frame that has been decoded.
type arrival struct {
	frame
	run     func() []reflect.Value // what a request asks for
	touched []*object
}

func (w *waiter) give(f arrival) string {
	select {
	case w.frames <- f:
		return ""
	default:
		return "too many requests for one thread"
	}
}

// Peer is one end of the connection, with what both sides know by number or by name.
type Peer struct {
	out    io.Writer
	end    func(why string) // called once when nothing can be asked any more; does not return in a program
	tests  bool             // this is the side of the tests
	module string           // import path of the module, by which the tests' own functions are recognised

	mu           sync.Mutex // guards all below
	ready        sync.Cond  // there is something in the queue, or the end has come
	queue        [][]byte   // frames to be written
	ending       sync.Once
	closed       bool
	last         int             // number of our last request
	asked        map[int]bool    // numbers of our requests without an answer
	waiting      map[int]*waiter // thread → who waits in it
	threads      map[int]int     // goroutine → the thread that it serves
	parallel     bool            // several goroutines of the tests have asked at a time
	strays       int
	goroutines   int // of this side before it was asked anything
	objects      *objects
	types        map[string]reflect.Type // name of a type → the type
	names        map[reflect.Type]string
	handles      map[reflect.Type]bool
	proxies      map[reflect.Type]func(Handle) any // interface → makes what stands in for one of the other side's
	offered      map[string]reflect.Value          // functions and pointers to variables, by name
	errors       map[string]error                  // sentinel errors, by name
	named        map[error]string
	decided      int                     // decisions that were the delivery's
	typed        bool                    // the types of arguments and results go with each request, for the judge
	descriptions map[reflect.Type][]byte // type → its description
	stopped      bool                    // the judge answers nothing more in the running test
	vain         int                     // what the test has asked since then
	received     int                     // bytes
}

// NewPeer returns an end that has not begun to read.
func NewPeer(out io.Writer, tests bool, module string, end func(why string)) *Peer {
	p := &Peer{
		out: out, end: end, tests: tests, module: module, asked: map[int]bool{}, waiting: map[int]*waiter{},
		threads: map[int]int{}, types: map[string]reflect.Type{}, names: map[reflect.Type]string{},
		handles: map[reflect.Type]bool{}, proxies: map[reflect.Type]func(Handle) any{},
		descriptions: map[reflect.Type][]byte{}, offered: map[string]reflect.Value{}, errors: map[string]error{}, named: map[error]string{},
	}
	p.objects = newObjects(tests)
	p.ready.L = &p.mu
	p.addLibrary()
	go p.write()
	return p
}

// Read reads frames until the other side ends or breaks the protocol, and returns why.
func (p *Peer) Read(in io.Reader) string {
	why := p.read(bufio.NewReaderSize(in, 64<<10))
	p.close(why)
	return why
}

func (p *Peer) read(in *bufio.Reader) string {
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return gone
		}
		size := binary.BigEndian.Uint32(head[:])
		if size > maxFrame {
			return fmt.Sprintf("a message of %d bytes", size)
		}
		p.received += int(size)
		if p.received > maxTotal {
			return "the messages are too much altogether"
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(in, b); err != nil {
			return gone
		}
		f, err := parse(b)
		if err != nil {
			return err.Error()
		}
		if why := p.route(f); why != "" {
			return why
		}
	}
}

// route gives a frame to who waits for it.
func (p *Peer) route(f frame) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return gone
	}
	if f.kind == over && !p.tests {
		return "an end that is not for this side"
	}
	if f.kind == request {
		a, why := p.arrive(f, nil)
		if why != "" {
			return why
		}
		if w := p.waiting[f.thread]; w != nil && f.thread != nobody {
			return w.give(a)
		}
		p.parallel = p.parallel || p.tests
		p.strays++
		if p.strays > maxStrays {
			return "too many threads ask at once"
		}
		go func() {
			p.serve(a)
			p.mu.Lock()
			p.strays--
			p.mu.Unlock()
		}()
		return ""
	}
	if !p.asked[f.number] {
		return "an answer to nothing that was asked"
	}
	delete(p.asked, f.number)
	for _, w := range p.waiting {
		if w.number == f.number {
			a, why := p.arrive(f, w.take)
			if why != "" {
				return why
			}
			return w.give(a)
		}
	}
	return "" // who asked has ended meanwhile
}

// arrive decodes a frame, an answer by take; p.mu is held. Frames are decoded in the order in which they come, for a later
// one may name what an earlier one for another goroutine defines.
func (p *Peer) arrive(f frame, take func(frame)) (a arrival, why string) {
	a.frame = f
	why = fitting(func() {
		p.apply(f.extra)
		switch f.kind {
		case request:
			a.run = p.prepare(f)
		case answer, raised:
			take(f)
		}
		a.touched = p.objects.settle(p)
	})
	return a, why
}

// close ends the conversation, once. In a program end does not return, and so neither does close: a test whose goroutine
// went on or ended could pass.
func (p *Peer) close(why string) {
	p.ending.Do(func() {
		p.end(why)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed = true
		for _, w := range p.waiting {
			close(w.frames)
		}
		clear(p.waiting)
		p.ready.Signal()
	})
}

// send queues a frame whose parts are JSON already. p.mu is held.
func (p *Peer) send(parts ...[]byte) {
	b := append([]byte{0, 0, 0, 0, '['}, bytes.Join(parts, []byte{','})...)
	b = append(b, ']')
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if len(b)-4 > maxFrame {
		panic(tooLarge{})
	}
	p.queue = append(p.queue, b)
	p.ready.Signal()
}

// write writes what is sent. It holds no lock meanwhile: both sides may be writing more than the connection takes, and
// each must go on reading.
func (p *Peer) write() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.queue) == 0 {
			if p.closed {
				return
			}
			p.ready.Wait()
		}
		queue := p.queue
		p.queue = nil
		p.mu.Unlock()
		for _, b := range queue {
			_, _ = p.out.Write(b) // a closed connection is noticed by who reads
		}
		p.mu.Lock()
	}
}

// tooLarge is the panic of a value that does not fit into one frame.
type tooLarge struct{}

// goroutine returns the number of the running goroutine, which the runtime tells only in its traces.
func goroutine() int {
	var buf [64]byte
	text := buf[:runtime.Stack(buf[:], false)]
	text, _, _ = bytes.Cut(bytes.TrimPrefix(text, []byte("goroutine ")), []byte(" "))
	n, _ := strconv.Atoi(string(text))
	return n
}

// ask sends a request, and waits until its answer has been given to take while the tables are locked. Requests for the same
// thread that arrive before are served here.
func (p *Peer) ask(op string, types *[2][]reflect.Value, args func(*encoder) []byte, take func(frame)) {
	w, thread, key := &waiter{take: take, frames: make(chan arrival, 4)}, nobody, 0
	var before *waiter
	here := goroutine()
	p.mu.Lock()
	mark := op == "test" || op == "done" // the judge alone reads these
	stopped := p.stopped && !mark
	if stopped {
		p.vain++
	}
	circles := p.vain > maxVain
	p.mu.Unlock()
	switch {
	case circles:
		p.close("the test asks on and on") // it would do so until the judge loses patience
	case stopped:
		return
	}
	p.encode(func(e *encoder) {
		p.last++
		w.number = p.last
		served, nested := p.threads[here]
		switch {
		case p.tests:
			thread = w.number
			p.parallel = p.parallel || len(p.waiting) > 0 && !nested
		case nested:
			thread = served
		}
		extra := []byte("{}")
		if !mark {
			extra = e.extra(nil)
		}
		if p.typed && types != nil {
			extra = p.signature(extra, types)
		}
		name, _ := json.Marshal(op)
		p.send(digits(request), digits(w.number), digits(thread), name, args(e), extra)
		p.asked[w.number] = true
		key = thread
		if thread == nobody {
			key = -1 - w.number // no request names it
		}
		if p.closed {
			close(w.frames)
			return
		}
		before = p.waiting[key]
		p.waiting[key] = w
	}, func() { p.last-- })
	defer func() {
		p.mu.Lock()
		delete(p.waiting, key)
		if before != nil && !p.closed {
			p.waiting[key] = before
		}
		p.mu.Unlock()
	}()
	for f := range w.frames {
		if f.kind == request {
			p.serve(f)
			continue
		}
		if f.kind == over { // what the test finds does not count any more
			p.mu.Lock()
			p.stopped = true
			p.mu.Unlock()
			return
		}
		return
	}
	p.close(gone)
	runtime.Goexit() // nothing more can be asked
}

func digits(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }

// locked runs f, which decodes what arrived, with the tables. What does not fit ends the conversation and the goroutine.
func (p *Peer) locked(f func()) {
	why := ""
	func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		why = fitting(f)
	}()
	if why != "" {
		p.close(why)
		runtime.Goexit()
	}
}

// fitting runs f, which decodes what arrived, and returns what does not fit.
func fitting(f func()) (why string) {
	defer func() {
		if v := recover(); v != nil {
			why = fmt.Sprint("a message that does not fit: ", v)
		}
	}()
	f()
	return ""
}
