package node

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/relay"
)

// puppet is a relay that accepts everything, stores nothing, and sends what the test tells it to.
type puppet struct {
	t   *testing.T
	url string

	mu   sync.Mutex
	ws   *websocket.Conn
	subs map[string][]string // "inbox", "announcements", "letters", "reviews" or "" → ids of open subscriptions, the oldest first
}

func startPuppet(t *testing.T) *puppet {
	t.Helper()
	p := &puppet{t: t, subs: map[string][]string{}}
	s := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	p.url = "ws" + strings.TrimPrefix(s.URL, "http")
	return p
}

func (p *puppet) serve(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(1 << 20)
	p.mu.Lock()
	p.ws = ws
	p.mu.Unlock()
	for {
		_, raw, err := ws.Read(r.Context())
		var m []json.RawMessage
		if err != nil || json.Unmarshal(raw, &m) != nil || len(m) < 2 {
			return
		}
		p.answer(m)
	}
}

// answer returns the usual answers to a REQ and an EVENT, and records the open subscriptions.
func (p *puppet) answer(m []json.RawMessage) {
	switch string(m[0]) {
	case `"REQ"`:
		var sub string
		if json.Unmarshal(m[1], &sub) != nil {
			return
		}
		sort := ""
		switch filter := string(m[2]); {
		case strings.Contains(filter, "1059"):
			sort = "letters"
		case strings.Contains(filter, "32020"):
			sort = "reviews"
		case strings.Contains(filter, `"#p"`):
			sort = "inbox"
		case strings.Contains(filter, "31990") && strings.Contains(filter, "since"): // not the query for stored announcements
			sort = "announcements"
		}
		p.mu.Lock()
		p.subs[sort] = append(p.subs[sort], sub)
		p.mu.Unlock()
		p.send(fmt.Sprintf(`["EOSE",%q]`, sub))
	case `"CLOSE"`:
		var sub string
		if json.Unmarshal(m[1], &sub) != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for sort, open := range p.subs {
			p.subs[sort] = slices.DeleteFunc(open, func(one string) bool { return one == sub })
		}
	case `"EVENT"`:
		var e struct{ ID string }
		if json.Unmarshal(m[1], &e) == nil {
			p.send(fmt.Sprintf(`["OK",%q,true,""]`, e.ID))
		}
	}
}

// send sends a message unchanged.
func (p *puppet) send(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ws.Write(p.t.Context(), websocket.MessageText, []byte(message)); err != nil && p.t.Context().Err() == nil {
		p.t.Errorf("the node has left: %v", err)
	}
}

// event sends any text as an event, in the subscription for events of that kind.
func (p *puppet) event(kind nostr.Kind, event string) {
	sort := "inbox"
	if kind == 31990 {
		sort = "announcements"
	}
	var sub string
	eventually(p.t, "the node is subscribed", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.subs[sort]) > 0 {
			sub = p.subs[sort][0]
		}
		return sub != ""
	})
	p.send(fmt.Sprintf(`["EVENT",%q,%s]`, sub, event))
}

// trial has a customer with an open job, the provider that it has asked, and a relay that forges.
type trial struct {
	*testing.T
	customer *control.Client
	we       nostr.PubKey
	provider *peer
	stranger *peer
	puppet   *puppet
	job      string
	request  nostr.Event
}

// newTrial opens a job and waits for the provider's first feedback.
func newTrial(t *testing.T, change func(*Config)) *trial {
	t.Helper()
	url := startRelay(t)
	r := &trial{T: t, puppet: startPuppet(t), provider: newPeer(t, url), stranger: newPeer(t, url)}
	r.provider.announce()
	r.customer, r.we = start(t, url, func(c *Config) {
		c.Relays = append(c.Relays, r.puppet.url)
		change(c)
	})
	awaitProviders(t, r.customer, 1)
	r.ask()
	return r
}

// ask opens a job, and the provider reports that it is working.
func (r *trial) ask() {
	r.Helper()
	r.job = open(r.T, r.customer, bundle(r.T), control.Hire{Providers: []string{r.provider.pubkey.Hex()}})
	r.request = r.provider.next(5000)
	r.provider.publish(r.provider.feedback(r.request, nostr.Tag{"status", "processing"}))
	eventually(r.T, "the relay's and the provider's word have come", func() bool {
		all := facts(r.T, r.customer, "job."+r.job)
		return slices.Contains(all, "attempt.requested") && slices.Contains(all, "attempt.progressed")
	})
}

// state returns everything that must not change: the job as shown, the journal, and what is known of providers. It
// first waits for running work.
func (r *trial) state() string {
	r.Helper()
	eventually(r.T, "nothing is under way", func() bool {
		all := strings.Join(facts(r.T, r.customer, ""), " ")
		return strings.Count(all, "effect.claimed") == strings.Count(all, "effect.settled")
	})
	job, err := control.OneJob.Call(r.Context(), r.customer, r.job)
	if err != nil {
		r.Fatal(err)
	}
	providers, err := control.Providers.Call(r.Context(), r.customer)
	if err != nil {
		r.Fatal(err)
	}
	var entries []control.Record
	for e, err := range control.Entries.Lines(r.Context(), r.customer) {
		if err != nil {
			r.Fatal(err)
		}
		entries = append(entries, e)
	}
	b, err := json.MarshalIndent([]any{job, providers, entries}, "", " ")
	if err != nil {
		r.Fatal(err)
	}
	return string(b)
}

// dropped returns the number of events dropped for a reason.
func (r *trial) dropped(reason string) int64 {
	r.Helper()
	s, err := control.NodeStatus.Call(r.Context(), r.customer)
	if err != nil {
		r.Fatal(err)
	}
	return s.Dropped[reason]
}

// mustDrop checks that do causes one event to be dropped for the reason and to be kept, and that nothing else changes.
func (r *trial) mustDrop(reason string, do func()) {
	r.Helper()
	before, state := r.dropped(reason), r.state()
	do()
	eventually(r.T, "an event is dropped as "+reason, func() bool { return r.dropped(reason) > before })
	if n := r.dropped(reason); n != before+1 {
		r.Errorf("%d events dropped as %s, want one", n-before, reason)
	}
	if now := r.state(); now != state {
		r.Errorf("%s: something has changed: %s", reason, difference(state, now))
	}
	eventually(r.T, "what was dropped as "+reason+" is kept", func() bool { return slices.Contains(r.rejected(), reason) })
}

// difference returns the first place where two texts differ.
func difference(a, b string) string {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	from := max(0, at-200)
	return fmt.Sprintf("%.500s\nbecame\n%.500s", a[from:], b[from:])
}

// rejected returns the reasons of the dropped events that were kept.
func (r *trial) rejected() (reasons []string) {
	r.Helper()
	kept, err := control.Rejected.Call(r.Context(), r.customer)
	if err != nil {
		r.Fatal(err)
	}
	for _, d := range kept {
		reasons = append(reasons, d.Reason)
	}
	return reasons
}

// TestForgedEventsAreDropped lets a relay send events that no honest relay would send.
func TestForgedEventsAreDropped(t *testing.T) {
	t.Parallel()
	r := newTrial(t, func(*Config) {})
	result := r.provider.sign(r.provider.result(r.request)).Event()
	tests := []struct {
		name   string
		event  func() string
		reason relay.Reason
	}{
		{"bad signature", func() string { e := result; e.Sig[7] ^= 1; return e.String() }, relay.BadSignature},
		{"signature of somebody else", func() string { e := result; e.Sig = r.stranger.sign(e).Event().Sig; return e.String() }, relay.BadSignature},
		{"content that is not the id's", func() string { e := result; e.Content += " "; return e.String() }, relay.WrongID},
		{"key that is not the id's", func() string { e := result; e.PubKey = r.stranger.pubkey; return e.String() }, relay.WrongID},
		{"10 MB of content", func() string { e := result; e.Content = strings.Repeat("x", 10<<20); return e.String() }, relay.TooLarge},
		{"deep JSON", func() string {
			return strings.Replace(result.String(), "{", `{"x":`+strings.Repeat("[", 50_000)+strings.Repeat("]", 50_000)+",", 1)
		}, relay.Malformed},
		{"kind as a text", func() string { return strings.Replace(result.String(), `"kind":6000`, `"kind":"6000"`, 1) }, relay.Malformed},
		{"no event", func() string { return "null" }, relay.Malformed},
		{"what was not asked for", func() string { return r.stranger.sign(nostr.Event{Kind: 6000}).Event().String() }, relay.Unsolicited},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r.T = t
			r.mustDrop(string(test.reason), func() { r.puppet.event(6000, test.event()) })
		})
	}
	r.T = t
	r.mustFinish()
}

// mustFinish lets the provider deliver: nothing that came before may prevent it.
func (r *trial) mustFinish() {
	r.Helper()
	r.provider.publish(r.provider.result(r.request))
	if job := finish(r.T, r.customer, r.job); job.Ending != guild.JobAccepted || len(job.Attempts) != 1 {
		r.Errorf("%s after %d attempts: %s", job.Ending, len(job.Attempts), job.Reason)
	}
	eventually(r.T, "the provider is no longer merely seen, and was told the verdict", func() bool {
		all := facts(r.T, r.customer, "")
		return slices.Contains(all, "provider.moved") && slices.Contains(all, "attempt.told")
	})
}

// TestStrangersEventsAreDropped sends events with valid signatures and harmful contents.
func TestStrangersEventsAreDropped(t *testing.T) {
	t.Parallel()
	r := newTrial(t, func(*Config) {})
	p, s := r.provider, r.stranger
	other := r.request
	other.ID = nostr.ID{1, 2, 3}
	tests := []struct {
		name   string
		event  func() guild.Verified
		reason guild.Reason
	}{
		{"result from a stranger", func() guild.Verified { return s.sign(s.result(r.request)) }, guild.Stranger},
		{"feedback from a stranger", func() guild.Verified { return s.sign(s.feedback(r.request, nostr.Tag{"status", "error"})) }, guild.Stranger},
		{"result for a request that never was", func() guild.Verified { return p.sign(p.result(other)) }, guild.Unrequested},
		{"result with an amount that is not a number", func() guild.Verified {
			e := p.result(r.request)
			e.Tags = append(e.Tags, nostr.Tag{"amount", "much"})
			return p.sign(e)
		}, guild.Malformed},
		{"result that pretends to be encrypted", func() guild.Verified {
			e := p.result(r.request)
			e.Tags, e.Content = append(e.Tags, nostr.Tag{"encrypted"}), "AgAA"
			return p.sign(e)
		}, guild.Malformed},
		{"feedback with an amount that is not a number", func() guild.Verified {
			return p.sign(p.feedback(r.request, nostr.Tag{"status", "processing"}, nostr.Tag{"amount", "-1"}))
		}, guild.Malformed},
		{"feedback of too many tags", func() guild.Verified {
			return p.sign(p.feedback(r.request, slices.Repeat([]nostr.Tag{{"x", "y"}}, 1001)...))
		}, guild.Unrequested},
		{"request to one who offers nothing", func() guild.Verified {
			return s.sign(nostr.Event{Kind: 5000, Tags: nostr.Tags{{"p", r.we.Hex()}}})
		}, guild.Misdirected},
		{"deletion of somebody else's request", func() guild.Verified {
			return s.sign(nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", r.request.ID.Hex()}, {"k", "5000"}, {"p", r.we.Hex()}}})
		}, guild.Misdirected},
		{"a note", func() guild.Verified { return s.sign(nostr.Event{Kind: 1, Tags: nostr.Tags{{"p", r.we.Hex()}}}) }, guild.Unexpected},
		{"announcement from the future", func() guild.Verified { return s.sign(dated(s.announcement(), 2*time.Hour)) }, guild.Future},
		{"announcement that is older than the one we hold", func() guild.Verified {
			e := dated(p.announcement("nip44"), -time.Hour)
			e.Tags = append(e.Tags, nostr.Tag{"t", "everything"})
			return p.sign(e)
		}, guild.Outdated},
		{"announcement that is no JSON", func() guild.Verified { e := s.announcement(); e.Content = "{"; return s.sign(e) }, guild.Malformed},
		{"announcement of 100 KB", func() guild.Verified {
			e := s.announcement()
			e.Content = fmt.Sprintf(`{"about":%q}`, strings.Repeat("x", 100_000))
			return s.sign(e)
		}, guild.Malformed},
		{"deletion of somebody else's announcement", func() guild.Verified {
			return s.sign(nostr.Event{Kind: 5, Tags: nostr.Tags{{"a", "31990:" + p.pubkey.Hex() + ":echo"}, {"k", "31990"}, {"p", r.we.Hex()}}})
		}, guild.Misdirected},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r.T = t
			e := test.event().Event()
			r.mustDrop(string(test.reason), func() { r.puppet.event(e.Kind, e.String()) })
		})
	}
	r.T = t
	r.mustFinish()
}

func TestResultOfWrongKind(t *testing.T) {
	t.Parallel()
	r := newTrial(t, func(*Config) {})
	wrong := r.provider.result(r.request)
	wrong.Kind = 6050
	before := r.dropped(string(guild.WrongKind))
	r.puppet.event(wrong.Kind, r.provider.sign(wrong).Event().String())
	eventually(t, "it is dropped", func() bool { return r.dropped(string(guild.WrongKind)) == before+1 })
	eventually(t, "it is held against the provider", func() bool {
		providers, err := control.Providers.Call(t.Context(), r.customer)
		return err == nil && slices.ContainsFunc(providers, func(p control.Provider) bool { return p.Observed != nil && p.Observed.Faults == 1 })
	})
	r.mustFinish()
}

// dated returns an event with another date.
func dated(e nostr.Event, off time.Duration) nostr.Event {
	e.CreatedAt = nostr.Timestamp(time.Now().Add(off).Unix())
	return e
}

func TestLateEventsChangeNothing(t *testing.T) {
	t.Parallel()
	r := newTrial(t, func(*Config) {})
	r.mustFinish()
	second := r.provider.result(r.request)
	second.Content = strings.Replace(second.Content, "{", "{ ", 1)
	r.mustDrop(string(guild.Second), func() { r.provider.publish(second) })
	r.mustDrop(string(guild.Late), func() {
		r.provider.publish(dated(r.provider.feedback(r.request, nostr.Tag{"status", "partial"}), 5*time.Second)) // an error would be an objection to the verdict
	})
	r.mustDrop(string(guild.Stranger), func() { r.stranger.publish(r.stranger.result(r.request)) })
}

func TestResultAfterCancel(t *testing.T) {
	t.Parallel()
	r := newTrial(t, func(*Config) {})
	if _, err := control.CancelJob.Call(t.Context(), r.customer, r.job); err != nil {
		t.Fatal(err)
	}
	if job := finish(t, r.customer, r.job); job.Ending != guild.JobCancelled {
		t.Fatalf("%s: %s", job.Ending, job.Reason)
	}
	checkDeletion(t, r.provider.next(5), r.request)
	r.mustDrop(string(guild.Late), func() { r.provider.publish(r.provider.result(r.request)) })
}

// checkDeletion checks the kind 5 event that withdraws a request.
func checkDeletion(t *testing.T, deletion, request nostr.Event) {
	t.Helper()
	if deletion.PubKey != request.PubKey || deletion.Tags.FindWithValue("e", request.ID.Hex()) == nil ||
		deletion.Tags.FindWithValue("k", strconv.Itoa(int(request.Kind))) == nil {
		t.Errorf("the deletion does not name the request: %s", deletion)
	}
}

func TestResultAfterExpiry(t *testing.T) {
	t.Parallel()
	r := newTrial(t, func(c *Config) {
		c.Hiring.Patience.Silence, c.Hiring.Patience.Extend = 10*time.Second, 500*time.Millisecond
	})
	if job := finish(t, r.customer, r.job); job.Ending != guild.JobTimedOut {
		t.Fatalf("%s: %s", job.Ending, job.Reason)
	}
	checkDeletion(t, r.provider.next(5), r.request)
	r.mustDrop(string(guild.Late), func() { r.provider.publish(r.provider.result(r.request)) })
}

func TestFeedbackFlood(t *testing.T) {
	t.Parallel()
	const kept, more = 100, 50
	r := newTrial(t, func(*Config) {})
	for i := range kept + more {
		e := r.provider.feedback(r.request, nostr.Tag{"status", "partial"})
		e.Content = fmt.Sprint("line ", i)
		r.puppet.event(e.Kind, r.provider.sign(e).Event().String())
	}
	eventually(t, "the flood is dropped", func() bool { return r.dropped(string(guild.Flood)) == more+1 }) // one was counted before
	progressed := 0
	for _, f := range facts(t, r.customer, "job."+r.job) {
		if f == "attempt.progressed" {
			progressed++
		}
	}
	if progressed != kept {
		t.Errorf("%d feedback events kept, want %d", progressed, kept)
	}
	r.mustFinish()
}

// TestHostileHTTPRequests sends invalid HTTP requests to the relay of a running node.
func TestHostileHTTPRequests(t *testing.T) {
	t.Parallel()
	n, _ := start(t, "", func(c *Config) {
		c.Relays, c.Embed, c.Addr = nil, true, "127.0.0.1:0"
	})
	s, err := control.NodeStatus.Call(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(s.Local, "ws://")
	hash := strings.Repeat("0", 64)
	upgrade := "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for _, knock := range []struct {
		name, head string
		want       int
	}{
		{"an upload of 300 GB", "PUT /upload HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 300000000000\r\n", 413},
		{"an upload from a foreign page", "PUT /upload HTTP/1.1\r\nHost: " + host + "\r\nOrigin: https://evil.example\r\nContent-Length: 3\r\n", 403},
		{"a download from a foreign page", "GET /" + hash + " HTTP/1.1\r\nHost: " + host + "\r\nOrigin: https://evil.example\r\n", 403},
		{"a session of a foreign page", "GET / HTTP/1.1\r\nHost: " + host + "\r\nOrigin: https://evil.example\r\n" + upgrade, 403},
		{"a name rebound to this machine", "GET / HTTP/1.1\r\nHost: evil.example\r\n" + upgrade, 421},
	} {
		if got := answerTo(t, host, knock.head+"\r\nfew"); got != knock.want {
			t.Errorf("%s: %d, want %d", knock.name, got, knock.want)
		}
	}
	start(t, s.Local, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	if job := hire(t, n, control.Hire{}); job.Ending != guild.JobAccepted {
		t.Errorf("after all that: %s: %s", job.Ending, job.Reason)
	}
}

// answerTo sends bytes unchanged and returns the status of the answer.
func answerTo(t *testing.T, host, request string) int {
	t.Helper()
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprint(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}
