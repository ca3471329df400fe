package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"guild"
	"guild/internal/control"
	"guild/internal/step/judge"
	"guild/internal/step/work"
	"guild/nip90"
	"guild/nutshell"
)

// These tests run programs that are written with nostr-tools and with NDK (interop/*.mjs) against a node over a real
// relay. They cover what other people's programs are known to do:
//
//	who            what they do                                           where it is tried
//	NIP-90 text    encrypted requests still by NIP-04                     customers: "text, NIP-04"
//	NDK 3          payment_required with an underscore                    providers: ndk Payment
//	NDK 3          encryption() moves bid, relays and output inside       customers: ndk, the encrypted ones
//	NDK 3          feedback and results name the provider in a p tag too  providers: ndk Bundles
//	NDK 3          "scheduled"                                            providers: ndk Scheduled
//	2020117        order p, e, status; "Agent at capacity", newline       providers: nostr-tools Capacity
//	2020117        reads the bid outside only; a clear answer to an       providers: nostr-tools Clear
//	               encrypted request; kinds 30333 and 31117
//	nostrdvm       sees the inner tags only; encrypted feedback is the    providers: nostr-tools Nostrdvm
//	               whole tag list with a content tag; encrypted results
//	               carry encrypted, p, e; kinds 11998, 7007 and a forged
//	               zap receipt; pong, subscription-*, payment-rejected,
//	               chain-scheduled
//	nostrdvm       plain results carry status, expiration, alt            providers: nostr-tools NostrdvmPlain
//	OpenAgents     31990 without d and k; handler, capability, price      providers: nostr-tools OpenAgents
//	amounts        with and without bolt11, in 7000 and in 6xxx           providers: nostr-tools OpenAgents
//	strfry, khatru live events late or never; limit:0                     internal/hand/relay, faults_test.go
//
// What is known of pusher-js does not concern relays or jobs. The agents of TENEX are in agentsndk_test.go.

// program is a running program of interop.
type program struct {
	t     *testing.T
	name  string
	lines chan json.RawMessage
}

// startProgram runs a program of interop with a configuration until the test ends.
func startProgram(t *testing.T, name string, config any) *program {
	t.Helper()
	const hint = "install what these tests need with 'scripts/needs test'"
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("there is no Node.js: %s (%v)", hint, err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	packages := filepath.Join(root, ".cache", "interop")
	wanted, err := os.ReadFile(filepath.Join(root, "interop", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if there, err := os.ReadFile(filepath.Join(packages, "installed")); err != nil || !bytes.Equal(there, wanted) {
		t.Fatalf("nostr-tools and NDK are not there in the versions of interop/package-lock.json: %s", hint)
	}
	dir := t.TempDir() // Node.js looks for modules beside the program
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "interop"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, name: name, lines: make(chan json.RawMessage, 1000)}
	p.run(exec.Command(node, filepath.Join(dir, name+".mjs"), string(text)))
	return p
}

func (p *program) run(command *exec.Cmd) {
	p.t.Helper()
	var complaints bytes.Buffer
	command.Stderr = &complaints
	in, err := command.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(p.lines)
		scan := bufio.NewScanner(out)
		scan.Buffer(nil, 4<<20)
		for scan.Scan() {
			p.lines <- bytes.Clone(scan.Bytes())
		}
	})
	p.t.Cleanup(func() {
		in.Close() // closing its input tells it to end
		kill := time.AfterFunc(10*time.Second, func() { command.Process.Kill() })
		defer kill.Stop()
		go func() {
			for range p.lines { // discard the remaining output
			}
		}()
		reading.Wait()
		if err := command.Wait(); err != nil || p.t.Failed() {
			p.t.Logf("%s: %v\n%s", p.name, err, guild.Cut(complaints.String(), 4000))
		}
	})
}

// next reads the next line of the program's output. A reported error ends the test.
func (p *program) next(into any) {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.t.Fatalf("%s has ended", p.name)
		}
		var wrong struct{ Error string }
		if json.Unmarshal(line, &wrong); wrong.Error != "" {
			p.t.Fatalf("%s: %s", p.name, wrong.Error)
		}
		if err := json.Unmarshal(line, into); err != nil {
			p.t.Fatalf("%s says %s: %v", p.name, line, err)
		}
	case <-time.After(ample):
		p.t.Fatalf("%s says nothing", p.name)
	}
}

// upper is a worker that delivers its input in capitals: the file of a bundle, or the first input of a request without
// one.
func upper(ctx context.Context, a work.Assignment) error {
	a.Say("halfway there")
	found := ""
	err := fs.WalkDir(os.DirFS(filepath.Join(a.Bundle, "files")), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && path != "params.json" && found == "" {
			found = filepath.Join(a.Bundle, "files", path)
		}
		return err
	})
	if err != nil {
		return err
	}
	b, err := os.ReadFile(found)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), bytes.ToUpper(b), 0o644)
}

// wish is a request for a customer's program to publish.
type wish struct {
	Name       string     `json:"name"`
	Kind       int        `json:"kind"`
	Tags       [][]string `json:"tags"`
	Encryption string     `json:"encryption,omitempty"`

	want   string // the result in clear
	bundle bool   // the result is a delivery bundle
	fails  string // the reason, if it must be refused
}

// answersTo holds what a customer's program received for a wish.
type answersTo struct {
	Name    string
	Answers []answer
}

type answer struct {
	Kind      int
	Tags      [][]string
	Raw       string // content as received
	Content   string // decrypted content
	Status    string // status as NDK parses it
	Request   string // request as NDK parses it
	Encrypted bool
}

func (a answer) tag(name string) string {
	for _, t := range a.Tags {
		if len(t) > 1 && t[0] == name {
			return t[1]
		}
	}
	return ""
}

// wishes returns the requests of each customer.
func wishes(t *testing.T, encryptions ...string) (all []wish) {
	t.Helper()
	for _, encryption := range encryptions {
		input := "hello, " + encryption
		packed := bundleOf(t, []byte(input))
		all = append(all, wish{
			Name: "bundle, " + encryption, Kind: 5000, Encryption: encryption, want: strings.ToUpper(input), bundle: true,
			Tags: [][]string{
				{"i", base64.StdEncoding.EncodeToString(packed), "text", "", nip90.MarkerBundle},
				{"param", nip90.ParamJobType, "upper"}, {"param", nip90.ParamBundleSHA256, guild.Sum(packed).Hex()},
				{"output", "application/json"}, {"bid", "1000"},
			},
		}, wish{
			Name: "text, " + encryption, Kind: 5050, Encryption: encryption, want: strings.ToUpper(input),
			Tags: [][]string{{"i", input, "text"}, {"param", "model", "any"}, {"output", "text/plain"}, {"bid", "1000"}},
		}, wish{
			Name: "no such task, " + encryption, Kind: 5000, Encryption: encryption, fails: "does not offer",
			Tags: [][]string{{"i", input, "text"}, {"param", nip90.ParamJobType, "sing"}},
		})
	}
	return all
}

func TestForeignCustomers(t *testing.T) {
	t.Parallel()
	for program, encryptions := range map[string][]string{
		"customer-nostr-tools": {"", "nip44", "nip04"},
		"customer-ndk":         {"", "nip44"},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			relay := startRelay(t)
			_, provider := start(t, relay, func(c *Config) {
				c.Workers = []Worker{{Task: "upper", Kind: 5000, Do: upper}, {Task: "text", Kind: 5050, Do: upper}}
			})
			all := wishes(t, encryptions...)
			customer := startProgram(t, program, map[string]any{"relay": relay, "provider": provider.Hex(), "requests": all})
			var seen struct{ Card struct{ Content string } }
			if customer.next(&seen); !strings.Contains(seen.Card.Content, "supported_kinds") {
				t.Errorf("the announcement that it found: %+v", seen)
			}
			heard := map[string][]answer{}
			for range all {
				var to answersTo
				customer.next(&to)
				heard[to.Name] = append(heard[to.Name], to.Answers...)
			}
			for _, w := range all {
				t.Run(w.Name, func(t *testing.T) { w.check(t, heard[w.Name]) })
			}
		})
	}
}

// check compares the answers with the wish.
func (w wish) check(t *testing.T, heard []answer) {
	t.Helper()
	if len(heard) == 0 {
		t.Fatal("no answer")
	}
	for _, a := range heard {
		if a.Encrypted != (w.Encryption != "") {
			t.Errorf("the request was encrypted by %q, the answer of kind %d: %v", w.Encryption, a.Kind, a.Encrypted)
		}
		if a.Encrypted && strings.Contains(a.Raw, "bundle") || a.Encrypted && w.want != "" && strings.Contains(a.Raw, w.want) {
			t.Errorf("the answer can be read by all: %s", a.Raw)
		}
	}
	isResult := func(a answer) bool { return a.Kind == w.Kind+1000 }
	if w.fails != "" {
		if b, _ := json.Marshal(heard); slices.ContainsFunc(heard, isResult) || !strings.Contains(string(b), w.fails) {
			t.Errorf("refused with %s, want %q", b, w.fails)
		}
		return
	}
	i := slices.IndexFunc(heard, isResult)
	if i < 0 || len(heard) < 2 || heard[i].Request != "" && heard[i].Request != heard[i].tag("e") {
		t.Fatalf("no result, or not a word before it: %+v", heard)
	}
	got := heard[i].Content
	if w.bundle {
		got = delivered(t, got)
	}
	if got != w.want {
		t.Errorf("the result is %q, want %q", got, w.want)
	}
}

// delivered returns the one file of a delivery.
func delivered(t *testing.T, content string) string {
	t.Helper()
	p, err := nip90.DecodeParcel(content)
	if err != nil {
		t.Fatal(err)
	}
	b, err := nutshell.Open(bytes.NewReader(p.Inline), p.Size, nutshell.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	file, err := b.ReadFile("delivery/artifacts/out.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(file)
}

// stranger is a provider of another implementation, with the expected result of a job.
type stranger struct {
	persona   string
	encrypted bool        // it gets an encrypted request
	state     guild.State // of the attempt
	reason    string      // part of the attempt's reason
	fault     bool        // the attempt counts against it
	later     bool        // not a failure; it may be asked later
	bid       bool        // it reports the bid that it saw
	progress  int         // number of feedback events that are kept
}

func TestForeignProviders(t *testing.T) {
	t.Parallel()
	for program, strangers := range map[string][]stranger{
		"provider-nostr-tools": {
			{persona: "Bundles", state: guild.Accepted, progress: 1},
			{persona: "SealedBundles", encrypted: true, state: guild.Accepted},
			{persona: "Text", state: guild.Accepted},
			{persona: "SealedText", encrypted: true, state: guild.Accepted},
			{persona: "Capacity", state: guild.Refused, reason: "Agent at capacity", later: true},
			{persona: "Clear", encrypted: true, state: guild.Refused, reason: "answered an encrypted request in clear", fault: true, bid: true, progress: 1},
			{persona: "Nostrdvm", encrypted: true, state: guild.Accepted, bid: true, progress: 5},
			{persona: "NostrdvmPlain", state: guild.Accepted, bid: true, progress: 5},
			{persona: "OpenAgents", state: guild.Accepted, progress: 1},
			{persona: "WrongKind", state: guild.Refused, reason: "no such model", progress: 1},
		},
		"provider-ndk": {
			{persona: "Bundles", state: guild.Accepted, progress: 1},
			{persona: "SealedBundles", encrypted: true, state: guild.Accepted, progress: 1},
			{persona: "Text", state: guild.Accepted},
			{persona: "SealedText", encrypted: true, state: guild.Accepted},
			{persona: "Payment", state: guild.Refused, reason: "wants 21000 msat first"},
			{persona: "Scheduled", state: guild.Accepted, progress: 1},
			{persona: "Clear", encrypted: true, state: guild.Refused, reason: "answered an encrypted request in clear", fault: true},
		},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			relay := startRelay(t)
			var names []string
			for _, s := range strangers {
				names = append(names, s.persona)
			}
			providers := startProgram(t, program, map[string]any{"relay": relay, "personas": names})
			keys := providers.meet()
			customer, _ := start(t, relay, func(c *Config) { c.Examine = examineCapitals })
			awaitProviders(t, customer, len(strangers))
			for _, s := range strangers {
				t.Run(s.persona, func(t *testing.T) { s.try(t, customer, providers, keys[s.persona]) })
			}
		})
	}
}

// TestForeignProvidersArePaid hires providers that know no ecash, over Lightning before the work and after it.
func TestForeignProvidersArePaid(t *testing.T) {
	t.Parallel()
	relay := startRelay(t)
	wallets := startLightning(t, relay, 50_000, 40_000)
	providers := startProgram(t, "provider-nostr-tools", map[string]any{"relay": relay, "personas": []string{"Invoiced", "Billed"}, "wallet": wallets.provider})
	keys := providers.meet()
	customer, _ := start(t, relay, func(c *Config) { c.Examine = found(guild.Success, guild.Strong) })
	connect(t, customer, wallets.customer)
	awaitProviders(t, customer, 2)
	for persona, want := range map[string]struct {
		how  string
		paid int64 // msat
	}{
		"Invoiced": {"prepaid", 50_000},
		"Billed":   {"postpaid", 40_000},
	} {
		job := hire(t, customer, control.Hire{
			Providers: []string{keys[persona]}, Tries: 1, Settle: &control.Settlement{How: want.how, Unit: "sat", Most: 50},
		})
		eventually(t, persona+" is paid", func() bool {
			shown, err := control.OneJob.Call(t.Context(), customer, job.ID)
			return err == nil && len(shown.Attempts) == 1 && shown.Attempts[0].Money != nil && shown.Attempts[0].Money.State == "paid" &&
				shown.Attempts[0].Money.Paid == want.paid && shown.Attempts[0].Receipt != ""
		})
		if !wallets.payments.Scan() {
			t.Errorf("the wallet paid nothing to %s", persona)
		}
	}
}

// meet waits until all providers are announced, and returns their keys.
func (p *program) meet() map[string]string {
	keys := map[string]string{}
	for {
		var said struct {
			Persona, PubKey string
			Ready           bool
		}
		if p.next(&said); said.Ready {
			return keys
		}
		keys[said.Persona] = said.PubKey
	}
}

// try hires one provider, and checks the result.
func (s stranger) try(t *testing.T, customer *control.Client, providers *program, key string) {
	t.Helper()
	began, timeout := time.Now(), time.Minute
	if s.later {
		timeout = 10 * time.Second // the customer would wait a minute before it asks again
	}
	id := open(t, customer, bundleOf(t, []byte("hello, "+s.persona)), control.Hire{
		Providers: []string{key}, Bid: 50_000, Timeout: timeout.Milliseconds(), Tries: 1,
	})
	var heard struct {
		Persona   string
		Encrypted bool
	}
	providers.next(&heard)
	if heard.Persona != s.persona || heard.Encrypted != s.encrypted {
		t.Errorf("%s got a request, encrypted: %v", heard.Persona, heard.Encrypted)
	}
	if s.bid {
		var saw struct{ Bid string }
		if providers.next(&saw); saw.Bid != "50000" {
			t.Errorf("it saw a bid of %q", saw.Bid)
		}
	}
	a := only(t, finish(t, customer, id))
	if a.State != string(s.state) || !strings.Contains(a.Reason, s.reason) {
		t.Errorf("the attempt is %s: %q, want %s: %q", a.State, a.Reason, s.state, s.reason)
	}
	if took := time.Since(began); took > timeout+time.Minute {
		t.Errorf("a job of %s took %s", timeout, took)
	}
	if judged := a.Verdict != nil; judged != (s.state == guild.Accepted) {
		t.Errorf("judged: %v", judged)
	}
	if (a.Receipt != "") != (s.state == guild.Accepted) {
		t.Errorf("the receipt is %q", a.Receipt)
	}
	refusal, progressed := s.facts(t, customer, id)
	if refusal.Fault != s.fault || refusal.Later != s.later {
		t.Errorf("refused as %+v", refusal)
	}
	if progressed != s.progress {
		t.Errorf("%d words on how it goes were kept, want %d", progressed, s.progress)
	}
}

type refusal struct{ Fault, Later bool }

// facts returns how an attempt was refused, according to the journal, and the number of progress reports.
func (s stranger) facts(t *testing.T, customer *control.Client, id string) (r refusal, progressed int) {
	t.Helper()
	for record, err := range control.Entries.Lines(t.Context(), customer, "", "job."+id) {
		if err != nil {
			t.Fatal(err)
		}
		var entry struct {
			Facts []struct {
				Type string
				refusal
			}
		}
		if err := json.Unmarshal(record.Entry, &entry); err != nil {
			t.Fatal(err)
		}
		for _, f := range entry.Facts {
			switch f.Type {
			case "attempt.refused":
				r = f.refusal
			case "attempt.progressed":
				progressed++
			}
		}
	}
	return r, progressed
}

// examineCapitals is a judge that accepts the bundle's file in capitals, under any file name.
func examineCapitals(_ context.Context, c judge.Case) (guild.Verdict, judge.Evidence, error) {
	asked, err := os.ReadFile(filepath.Join(c.Bundle, "files", "in.txt"))
	if err != nil {
		return guild.Verdict{}, nil, err
	}
	made, err := filepath.Glob(filepath.Join(c.Delivery, "delivery", "artifacts", "*"))
	if err != nil || len(made) != 1 {
		return guild.Verdict{}, nil, fmt.Errorf("%d artifacts, %w", len(made), err)
	}
	got, err := os.ReadFile(made[0])
	if err != nil {
		return guild.Verdict{}, nil, err
	}
	if strings.TrimSpace(string(got)) != strings.ToUpper(string(asked)) {
		return guild.Verdict{Outcome: guild.Failure, Strength: guild.Strong, Tier: "none", Expected: 1, Cause: fmt.Sprintf("it says %q", got)}, judge.Evidence("compared"), nil
	}
	return guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Tier: "none", Expected: 1, Passed: 1}, judge.Evidence("compared"), nil
}
