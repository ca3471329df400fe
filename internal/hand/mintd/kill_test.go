package mintd

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"guild/cashu"
)

// These variables make the test binary a mint in a directory instead of running tests, one that kills itself when it was asked for
// the time, or had an answer, so many times: before and after a transaction.
const (
	mintDir    = "MINTD_TEST_DIR"
	dieClock   = "MINTD_TEST_DIE_CLOCK"
	dieAnswers = "MINTD_TEST_DIE_ANSWERS"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(mintDir); dir != "" {
		fmt.Fprintln(os.Stderr, serveUntilKilled(dir))
		os.Exit(1)
	}
	m.Run()
}

// small is the faucet's limit in the storm. Quotes of large are paid by a melt.
const small, large = 31, 32

// serveUntilKilled prints the mint's URL and serves until its standard input ends.
func serveUntilKilled(dir string) error {
	countdown := func(name string) func() {
		left := &atomic.Int64{}
		n, _ := strconv.ParseInt(os.Getenv(name), 10, 64)
		left.Store(n)
		return func() {
			if left.Add(-1) != 0 {
				return
			}
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				self.Kill()
				select {}
			}
		}
	}
	clock, answers := countdown(dieClock), countdown(dieAnswers)
	m, err := Open(dir, Options{Faucet: small, Now: func() time.Time {
		clock()
		return time.Now()
	}})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	fmt.Println("http://" + listener.Addr().String())
	handler := m.Handler()
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(dying{w, answers}, r)
	}))
}

// dying is an answer before which the mint may die.
type dying struct {
	http.ResponseWriter
	die func()
}

func (d dying) WriteHeader(status int) {
	d.die()
	d.ResponseWriter.WriteHeader(status)
}

// startProcess starts a mint in its own process.
func startProcess(t *testing.T, dir string, environment ...string) (url string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), mintDir+"="+dir), environment...)
	cmd.Stderr = t.Output()
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the mint says %q, %v", line, err)
	}
	return strings.TrimSpace(line), kill
}

// operation is one that a holder has begun, and whose answer it may never get.
type operation struct {
	path   string
	inputs []cashu.Proof
	out    blinded
	quote  mintQuote // that is minted, or that a melt pays
	melt   string    // quote
}

// holder has ecash, and moves it in all ways that there are.
type holder struct {
	*wallet
	turn    int
	proofs  []cashu.Proof
	spent   []cashu.Proof // all that it ever gave back
	paid    []mintQuote   // by melts, not minted yet
	granted uint64        // by the faucet
	pending *operation
}

// step does one operation. It returns false if the mint is gone.
func (h *holder) step() bool {
	h.turn++
	sum, err := cashu.Worth(h.proofs)
	if err != nil {
		h.t.Error(err)
		return false
	}
	switch {
	case len(h.paid) > 0:
		return h.mint(h.paid[0])
	case h.turn%4 == 0 && sum >= large:
		return h.meltLarge(sum)
	case h.turn%4 == 1 || sum == 0:
		q, ok := h.ask(1 + rand.Uint64N(small))
		return ok && h.mint(q)
	}
	amounts := cashu.Split(sum)
	if last := amounts[len(amounts)-1]; last > 1 { // other amounts each time
		amounts = append(amounts[:len(amounts)-1], last/2, last/2)
	}
	o := operation{path: "/v1/swap", inputs: h.proofs, out: h.blind(amounts...)}
	return h.begin(o, swapRequest{o.inputs, o.out.outputs})
}

func (h *holder) ask(amount uint64) (q mintQuote, ok bool) {
	return q, h.do("POST", "/v1/mint/quote/bolt11", mintQuoteRequest{Amount: amount, Unit: Unit}, &q) == nil
}

func (h *holder) mint(q mintQuote) bool {
	o := operation{path: "/v1/mint/bolt11", quote: q, out: h.blind(cashu.Split(q.Amount)...)}
	return h.begin(o, mintRequest{Quote: q.Quote, Outputs: o.out.outputs})
}

func (h *holder) meltLarge(sum uint64) bool {
	q, ok := h.ask(large)
	var m meltQuote
	if !ok || h.do("POST", "/v1/melt/quote/bolt11", meltQuoteRequest{Request: q.Request, Unit: Unit}, &m) != nil {
		return false
	}
	o := operation{path: "/v1/melt/bolt11", inputs: h.proofs, quote: q, melt: m.Quote, out: h.blind(cashu.Split(sum - large)...)}
	return h.begin(o, meltRequest{Quote: m.Quote, Inputs: o.inputs, Outputs: o.out.outputs})
}

func (h *holder) begin(o operation, body any) bool {
	h.pending = &o
	var answer struct {
		Signatures []cashu.Signature `json:"signatures"`
		Change     []cashu.Signature `json:"change"`
	}
	err := h.do("POST", o.path, body, &answer)
	if r, ok := err.(refusal); ok {
		h.t.Errorf("%s: %v", o.path, r)
	}
	if err != nil {
		return false
	}
	h.finish(append(answer.Signatures, answer.Change...))
	return true
}

// finish books the operation that was pending.
func (h *holder) finish(all []cashu.Signature) {
	o := h.pending
	h.pending = nil
	h.spent = append(h.spent, o.inputs...)
	if len(o.inputs) > 0 {
		h.proofs = nil
	}
	h.proofs = append(h.proofs, h.unblind(o.out, all)...)
	switch {
	case o.melt != "":
		h.paid = append(h.paid, o.quote)
	case o.quote.Amount == large:
		h.paid = h.paid[1:]
	case o.quote.Quote != "":
		h.granted += o.quote.Amount
	}
}

// recover asks a mint that has started again what became of the pending operation: all of it, or nothing.
func (h *holder) recover() {
	o := h.pending
	if o == nil {
		return
	}
	var got restored
	h.post("/v1/restore", restoreRequest{o.out.outputs}, &got)
	happened := false
	switch {
	case o.melt != "":
		var m meltQuote
		h.get("/v1/melt/quote/bolt11/"+o.melt, &m)
		var q mintQuote
		h.get("/v1/mint/quote/bolt11/"+o.quote.Quote, &q)
		happened = m.State == paid
		if happened != (q.State == paid) || happened && len(m.Change) != len(o.out.outputs) {
			h.t.Errorf("a melt that is %s paid a quote that is %s", m.State, q.State)
		}
	case o.quote.Quote != "":
		var q mintQuote
		h.get("/v1/mint/quote/bolt11/"+o.quote.Quote, &q)
		happened = q.State == issued
	default:
		happened = len(got.Signatures) > 0
	}
	want := 0
	if happened {
		want = len(o.out.outputs)
	}
	if len(got.Signatures) != want || slices.Contains(h.wallet.spent(o.inputs...), !happened) {
		h.t.Errorf("%s is half done: %d of %d signatures, %v", o.path, len(got.Signatures), len(o.out.outputs), h.wallet.spent(o.inputs...))
	}
	if happened {
		h.finish(got.Signatures)
		return
	}
	h.pending = nil
	if len(o.inputs) == 0 {
		h.mint(o.quote)
	}
}

// check compares what a holder has with what it got, and that all of it can be spent, once.
func (h *holder) check() {
	sum, err := cashu.Worth(h.proofs)
	for _, q := range h.paid {
		sum += q.Amount
	}
	if sum != h.granted || err != nil {
		h.t.Errorf("%d of %d is left, %v", sum, h.granted, err)
	}
	if slices.Contains(h.wallet.spent(h.proofs...), true) || slices.Contains(h.wallet.spent(h.spent...), false) {
		h.t.Error("the mint has forgotten what was spent")
	}
	for _, q := range h.paid {
		h.mint(q)
	}
	for _, p := range h.proofs {
		h.post("/v1/swap", swapRequest{[]cashu.Proof{p}, h.blind(p.Amount).outputs}, &signatures{})
	}
}

func TestKilledMintLosesNothing(t *testing.T) {
	dir := t.TempDir()
	holders := make([]*holder, 4)
	for i := range holders {
		holders[i] = &holder{}
	}
	done, unanswered, rounds := 0, 0, 15
	if testing.Short() {
		rounds = 6
	}
	for round := range rounds {
		kill, enough := storm(t, dir, round, holders)
		var mu sync.Mutex
		var clients sync.WaitGroup
		for _, h := range holders {
			clients.Go(func() {
				for h.step() {
					mu.Lock()
					done++
					if enough--; enough == 0 {
						go kill()
					}
					mu.Unlock()
				}
			})
		}
		clients.Wait()
		kill()
		for _, h := range holders {
			if h.pending != nil {
				unanswered++
			}
		}
		url, kill := startProcess(t, dir)
		for _, h := range holders {
			h.wallet = newWallet(t, url)
			h.recover()
			if round == rounds-1 {
				h.check()
			}
		}
		kill()
		if t.Failed() {
			return
		}
	}
	t.Logf("%d operations, and %d whose answers were lost", done, unanswered)
	if unanswered == 0 {
		t.Error("nothing was interrupted")
	}
}

// storm starts the mint for a round of the holders, in which it is killed after some operations, or kills itself.
func storm(t *testing.T, dir string, round int, holders []*holder) (kill func(), enough int) {
	t.Helper()
	n := 8 + rand.IntN(40)
	var environment []string
	switch round % 3 {
	case 0:
		enough = n
	case 1:
		environment = []string{dieClock + "=" + strconv.Itoa(n)}
	case 2:
		environment = []string{dieAnswers + "=" + strconv.Itoa(len(holders)+n)} // after each has the keys
	}
	url, kill := startProcess(t, dir, environment...)
	for _, h := range holders {
		h.wallet = newWallet(t, url)
	}
	return kill, enough
}
