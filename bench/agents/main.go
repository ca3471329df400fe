// Command agents measures how long it takes to compose the behaviour of an agent that many lessons are known of, the first
// time and later, and how much memory a lesson takes. It is a measurement only and not part of guild.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/nipae"
	"guild/nipae/behaviour"
	"guild/nutshell/brief"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	}
}

// options has the values of the command line.
type options struct {
	n      int
	rounds int
	json   bool
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("agents", flag.ContinueOnError)
	f.IntVar(&o.n, "n", 10_000, "lessons; every second one is a stranger's")
	f.IntVar(&o.rounds, "rounds", 50, "times that a behaviour is composed again")
	f.BoolVar(&o.json, "json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.n < 1 || o.rounds < 1 {
		return o, fmt.Errorf("-n %d -rounds %d: want one at the least", o.n, o.rounds)
	}
	return o, nil
}

// figures are the results.
type figures struct {
	Lessons int     `json:"lessons"`
	FirstMs float64 `json:"first_ms"`
	Later   spread  `json:"later_ms"`   // nothing has changed
	Changed spread  `json:"changed_ms"` // a lesson came before
	Memory  int64   `json:"memory"`     // bytes of the heap for each lesson, after the first time
	Text    int64   `json:"text"`       // bytes of content and tags of each, which are part of the memory
	Applied int     `json:"applied"`
}

// spread is the median, the least and the most of all rounds.
type spread struct {
	Least  float64 `json:"least"`
	Median float64 `json:"median"`
	Most   float64 `json:"most"`
}

func run(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	f, err := o.measure()
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(f)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "composing with %d lessons\tmedian ms\tleast\tmost\t\n", f.Lessons)
	fmt.Fprintf(t, "the first time\t%.2f\t\t\t\n", f.FirstMs)
	fmt.Fprintf(t, "later\t%.2f\t%.2f\t%.2f\t\n", f.Later.Median, f.Later.Least, f.Later.Most)
	fmt.Fprintf(t, "after one more lesson\t%.2f\t%.2f\t%.2f\t\n", f.Changed.Median, f.Changed.Least, f.Changed.Most)
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d bytes of memory for each lesson, with its %d of text; %d lessons are in the prompt\n", f.Memory, f.Text, f.Applied)
	return err
}

// world has the keys and the definition.
type world struct {
	publisher, owner *key.Signer
	agents           []*key.Signer // half of them are the owner's
	definition       nostr.ID
	library          *behaviour.Library
}

func signer() *key.Signer { return key.NewSigner(key.NewSecret(nostr.Generate())) }

// add signs an event and adds it to the library.
func (w *world) add(by *key.Signer, at int, unsigned nostr.Event, err error) (nostr.ID, error) {
	if err != nil {
		return nostr.ID{}, err
	}
	unsigned.CreatedAt = nostr.Timestamp(at)
	v, err := guild.Sign(context.Background(), by, unsigned)
	if err != nil {
		return nostr.ID{}, err
	}
	return v.Event().ID, w.library.Add(v)
}

// newWorld makes the definition, twenty agents of it and the claims of ten.
func newWorld(count func(string) int64) (*world, error) {
	w := &world{publisher: signer(), owner: signer(), library: behaviour.NewLibrary(behaviour.Config{Count: count, MaxEvents: 1_000_000, MaxBytes: 1 << 30})}
	d, err := nipae.Definition{D: "coder", Title: "Coder", Role: "You write Go.", Instructions: strings.Repeat("Test it. ", 50)}.Event()
	if w.definition, err = w.add(w.publisher, 1, d, err); err != nil {
		return nil, err
	}
	var claims nipae.Claims
	owner, _ := w.owner.GetPublicKey(context.Background())
	for i := range 20 {
		agent := signer()
		w.agents = append(w.agents, agent)
		p, err := nipae.Profile{Definition: nipae.Reference{ID: w.definition}, Owners: []nostr.PubKey{owner}}.Event()
		if _, err := w.add(agent, 1, p, err); err != nil {
			return nil, err
		}
		if i%2 == 0 {
			pub, _ := agent.GetPublicKey(context.Background())
			claims = claims.Add(pub)
		}
	}
	e, err := claims.Event()
	_, err = w.add(w.owner, 1, e, err)
	return w, err
}

// lesson adds the lesson with the number i.
func (w *world) lesson(i int) error {
	content := fmt.Sprintf("Lesson %d: %s", i, strings.Repeat("close what you open, and check its error; ", 7))
	l, err := nipae.Lesson{Title: fmt.Sprintf("Lesson %d", i), Category: fmt.Sprintf("category %d", i%100), Definition: nipae.Reference{ID: w.definition}, Content: content}.Event()
	_, err = w.add(w.agents[i%len(w.agents)], i, l, err)
	return err
}

func (o options) measure() (f figures, err error) {
	counter := brief.NewCounter()
	count := func(text string) int64 {
		n, countErr := counter.Count(text)
		if countErr != nil {
			err = countErr
		}
		return n
	}
	count("loads the vocabulary")
	w, err := newWorld(count)
	if err != nil {
		return f, err
	}
	_, textBefore := w.library.Len()
	before := heap()
	for i := range o.n {
		if err := w.lesson(i); err != nil {
			return f, err
		}
	}
	_, text := w.library.Len()
	owner, _ := w.owner.GetPublicKey(context.Background())
	r := behaviour.Request{Definition: w.definition, Policy: behaviour.Policy{Owners: []nostr.PubKey{owner}}, Task: "category 6", Words: "fix the tests of category 6"}
	compose := func() (ms float64, err error) {
		began := time.Now()
		b, err := w.library.Compose(r)
		f.Applied = len(b.Sources) - 1
		return float64(time.Since(began)) / float64(time.Millisecond), err
	}
	f.Lessons, f.Text = o.n, (text-textBefore)/int64(o.n)
	if f.FirstMs, err = compose(); err != nil {
		return f, err
	}
	f.Memory = (heap() - before) / int64(o.n)
	var later, changed []float64
	for i := range o.rounds {
		ms, err := compose()
		if err == nil {
			later = append(later, ms)
			err = w.lesson(o.n + i)
		}
		if err != nil {
			return f, err
		}
		if ms, err = compose(); err != nil {
			return f, err
		}
		changed = append(changed, ms)
	}
	f.Later, f.Changed = spreadOf(later), spreadOf(changed)
	return f, err
}

func spreadOf(ms []float64) spread {
	slices.Sort(ms)
	return spread{ms[0], ms[len(ms)/2], ms[len(ms)-1]}
}

// heap returns the bytes of the heap that are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
