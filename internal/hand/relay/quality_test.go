package relay_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"guild/internal/hand/relay"
	"guild/internal/hand/relay/faulttest"
)

// Relays of the tests. Their hosts are on loopback, because others need wss.
const (
	near    = "ws://127.0.0.1"
	far     = "ws://127.0.0.2"
	lossy   = "ws://127.0.0.3"
	dead    = "ws://127.0.0.4"
	unknown = "ws://127.0.0.5"
	slow    = "ws://127.0.0.6"
)

// manner holds the delays and losses of a test relay.
type manner struct {
	opens   time.Duration // until it takes a connection
	answers time.Duration // until OK or EOSE
	drops   int           // does not answer the first so many messages
}

// relaysWith plays relays by URL inside a bubble, and returns how to dial them.
func relaysWith(t *testing.T, manners map[string]manner) func(ctx context.Context, network, address string) (net.Conn, error) {
	t.Helper()
	listeners := map[string]*piped{}
	for url, m := range manners {
		l := newPiped()
		listeners[url] = l
		left := m.drops
		handler := playing(func(p peer) {
			for {
				message := p.next()
				if message == nil {
					return
				}
				label := text(message[0])
				if label == "CLOSE" {
					continue
				}
				if left > 0 {
					left--
					continue
				}
				time.Sleep(m.answers)
				switch label {
				case "EVENT":
					p.say(`["OK","` + eventID(message[1]) + `",true,""]`)
				case "REQ":
					p.say(`["EOSE",` + string(message[1]) + `]`)
				}
			}
		})
		serve(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(m.opens)
			handler.ServeHTTP(w, r)
		}))
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil || listeners["ws://"+host] == nil {
			return nil, net.ErrClosed
		}
		return listeners["ws://"+host].dial(ctx, network, address)
	}
}

func TestMeasuredQuality(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(newInbox())
		c.Dial = relaysWith(t, map[string]manner{
			near:  {10 * time.Millisecond, 20 * time.Millisecond, 0},
			far:   {200 * time.Millisecond, 600 * time.Millisecond, 0},
			lossy: {10 * time.Millisecond, 20 * time.Millisecond, 2},
		})
		p, stop := run(t, c)
		defer stop()
		urls := []string{dead, lossy, far, unknown, near}
		if got := p.Rank(urls); !slices.Equal(got, urls) {
			t.Errorf("unknown relays are ranked %v", got)
		}
		for _, e := range signed(t, 2) {
			if _, err := p.Publish(t.Context(), e, near, far, lossy, dead); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Query(t.Context(), notes(), near, far); err != nil {
			t.Fatal(err)
		}
		for url, want := range map[string]relay.Quality{
			near:  {Connect: 10 * time.Millisecond, Latency: 20 * time.Millisecond},
			far:   {Connect: 200 * time.Millisecond, Latency: 600 * time.Millisecond},
			lossy: {Connect: 10 * time.Millisecond, Loss: 0.36},
		} {
			got := p.Quality(url)
			if got.Connect.Round(time.Millisecond) != want.Connect || got.Latency != want.Latency || got.Loss < want.Loss-0.01 || got.Loss > want.Loss+0.01 {
				t.Errorf("%s: %+v, want %+v", url, got, want)
			}
		}
		if q := p.Quality(dead); q.Loss == 0 || q.Connect != 0 {
			t.Errorf("a relay that cannot be reached: %+v", q)
		}
		want := []string{near, unknown, far, lossy}
		if got := slices.DeleteFunc(p.Rank(urls), func(url string) bool { return url == dead }); !slices.Equal(got, want) {
			t.Errorf("ranked %v, want %v", got, want)
		}
		if ranked := p.Rank([]string{dead, near}); ranked[0] != near {
			t.Errorf("ranked %v", ranked)
		}
	})
}

func TestLossIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(newInbox())
		c.Dial = relaysWith(t, map[string]manner{lossy: {0, time.Millisecond, 1}})
		p, stop := run(t, c)
		defer stop()
		if _, err := p.Publish(t.Context(), signed(t, 1)[0], lossy); err == nil {
			t.Fatal("it has answered")
		}
		urls := []string{lossy, unknown}
		if got := p.Rank(urls); got[0] != unknown {
			t.Errorf("ranked %v", got)
		}
		time.Sleep(61 * time.Minute)
		if got := p.Rank(urls); got[0] != lossy {
			t.Errorf("after an hour it is ranked %v", got)
		}
		loss := p.Quality(lossy).Loss
		for _, e := range signed(t, 3) {
			if _, err := p.Publish(t.Context(), e, lossy); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.Quality(lossy).Loss; got >= loss {
			t.Errorf("loss %g after three answers, %g before", got, loss)
		}
	})
}

func TestGivingUpEarlyIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(newInbox())
		c.Dial = relaysWith(t, map[string]manner{slow: {0, 3 * time.Second, 0}})
		p, stop := run(t, c)
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Publish(ctx, signed(t, 1)[0], slow); err == nil {
			t.Fatal("it has answered")
		}
		if q := p.Quality(slow); q.Loss != 0 {
			t.Errorf("%+v", q)
		}
		time.Sleep(3 * time.Second) // the relay ends within the bubble
	})
}

// A relay on loopback that ends its connections ranks below an honest one.
func TestFaultyRelayRanksLast(t *testing.T) {
	good, backend := honest(t), honest(t)
	bad := faulttest.Start(t, backend, 1)
	bad.Set(faulttest.Mix{faulttest.Disconnect: 1})
	p, stop := run(t, config(newInbox()))
	defer stop()
	for _, e := range signed(t, 3) {
		if _, err := p.Publish(t.Context(), e, bad.URL(), good); err != nil {
			t.Fatal(err)
		}
	}
	if ranked := p.Rank([]string{bad.URL(), good}); ranked[0] != good {
		t.Errorf("ranked %v: %+v, %+v", ranked, p.Quality(bad.URL()), p.Quality(good))
	}
}
