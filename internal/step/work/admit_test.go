package work

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip13"

	"guild"
	"guild/internal/step/steptest"
	"guild/nip90"
)

// on returns a service with these terms.
func on(t Terms) Service {
	s := python(echo)
	s.Terms = t
	return s
}

func TestRefusalByTerms(t *testing.T) {
	for name, c := range map[string]struct {
		terms  Terms
		change func(*nip90.Request)
		reason guild.Reason
		says   string
		amount guild.Msat
	}{
		"a stranger at a service for listed customers": {terms: Terms{Allow: []nostr.PubKey{mallory.key}}, reason: unlisted,
			says: "this service is only for customers that its owner lists, and you are not among them"},
		"no bid":        {terms: Terms{MinBid: 1000}, reason: lowBid, says: "the least bid is 1000 msat, and this request bids 0", amount: 1000},
		"too low a bid": {Terms{MinBid: 1000}, func(r *nip90.Request) { r.Bid = 999 }, lowBid, "the least bid is 1000 msat, and this request bids 999", 1000},
		"no work":       {terms: Terms{PoW: 60}, reason: lowWork, says: "proof of work is wanted: 60 bits (NIP-13), and this request has"},
		"a key without end": {change: func(r *nip90.Request) { r.Set(nip90.ParamIdempotencyKey, strings.Repeat("k", 257)) }, reason: guild.Malformed,
			says: "the idempotency_key has 257 bytes, and 256 are enough"},
	} {
		for _, sealed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " sealed ", sealed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, on(c.terms))
					r := task(t, bundle(t, nil))
					if c.change != nil {
						c.change(&r)
					}
					send := w.sends
					if sealed {
						send = w.sendsSealed
					}
					id, err := send(customer, r)
					steptest.WantDrop(t, err, c.reason)
					told := w.told(customer, id)
					if len(told) != 1 || told[0].Status != nip90.Error || !strings.HasPrefix(told[0].Text, c.says) || told[0].Amount != c.amount {
						t.Errorf("told %+v", told)
					}
					if sealed && (told[0].Encrypted == "" || strings.Contains(w.sent(nip90.KindFeedback, id)[0].String(), c.says)) {
						t.Error("an encrypted request was answered in clear")
					}
					if w.Journal.Last() != 0 {
						t.Error("a fact was written")
					}
				})
			})
		}
	}
}

func TestAdmissionByTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, on(Terms{Allow: []nostr.PubKey{mallory.key, customer.key}, MinBid: 1000, PoW: 8, PerMinute: 1}))
		r := task(t, bundle(t, []byte("hello")))
		r.Bid = 1000
		e, err := r.Event()
		if err != nil {
			t.Fatal(err)
		}
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
		plain := e.Tags
		for n, bits := 0, 0; bits < 8; n++ {
			e.Tags = append(slices.Clone(plain), nostr.Tag{"nonce", fmt.Sprint(n), "8"})
			v, err := guild.Sign(t.Context(), customer.signer, e)
			if err != nil {
				t.Fatal(err)
			}
			bits = nip13.Difficulty(v.Event().ID)
		}
		id, err := w.says(customer, e)
		if err != nil {
			t.Fatal(err)
		}
		w.opened(customer, id)
	})
}

func TestDifficultyOfRequest(t *testing.T) {
	id := func(hex string) nostr.ID { return nostr.MustIDFromHex(hex + strings.Repeat("f", 64-len(hex))) }
	nonce := func(target ...string) nostr.Tags { return nostr.Tags{append(nostr.Tag{"nonce", "776797"}, target...)} }
	for name, c := range map[string]struct {
		id   nostr.ID
		tags nostr.Tags
		want int
	}{
		"the example of NIP-13":                       {id("000006d8c378af1779d2feebc7603a125d99eca0ccf1085959b307f64e5dd358"), nonce("21"), 21},
		"an id without a nonce counts":                {id("002f"), nil, 10},
		"no zero at all":                              {id("80"), nil, 0},
		"zeros beyond the target are luck":            {id("0000"), nonce("8"), 8},
		"fewer zeros than the target":                 {id("00f0"), nonce("20"), 8},
		"a nonce without a target commits to nothing": {id("000f"), nonce(), 12},
		"an invalid target":                           {id("0000"), nonce("many"), 0},
		"a target below zero":                         {id("0000"), nonce("-9"), 0},
	} {
		if got := difficulty(nostr.Event{ID: c.id, Tags: c.tags}); got != c.want {
			t.Errorf("%s: %d bits, want %d", name, got, c.want)
		}
	}
}

func TestTooLittleWorkIsNotDecrypted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := on(Terms{PoW: 60}), on(Terms{PoW: 50})
		b.Task = "go"
		w := newWorld(t, a, b)
		if got := w.leastWork(); got != 50 {
			t.Errorf("%d bits", got)
		}
		id, err := w.says(customer, nostr.Event{Kind: 5000, Tags: nostr.Tags{{"p", us.key.Hex()}, {"encrypted"}}, Content: "no ciphertext at all"})
		steptest.WantDrop(t, err, lowWork)
		if len(w.told(customer, id)) != 1 {
			t.Error("it was not told so")
		}
		_, err = w.says(customer, nostr.Event{Kind: 5000, Tags: nostr.Tags{{"p", mallory.key.Hex()}}, Content: "for somebody else"})
		if steptest.WantDrop(t, err, guild.Misdirected); len(w.published) != 1 {
			t.Errorf("%d events on what is not for us", len(w.published))
		}
	})
}

func TestRequestsPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, on(Terms{PerMinute: 3}))
		w.many(customer, "fast", 3) // a second apart
		r := task(t, bundle(t, nil))
		id, err := w.sends(customer, r)
		steptest.WantDrop(t, err, guild.Flood)
		if told := w.told(customer, id); len(told) != 1 || !told[0].Busy() || told[0].Text != "busy: 3 requests of one customer in a minute, try again later" {
			t.Errorf("told %+v", told)
		}
		w.many(mallory, "another", 3)
		w.pass(20 * time.Second) // a third of a minute
		w.many(customer, "later", 1)
	})
}

func TestNewcomersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{takes: time.Second}
		s := wide(worker)
		s.Queue = 1000
		w := newWorld(t, s)
		w.many(customer, "regular", 1)
		w.pass(time.Minute)
		if !w.fold.hasServed(customer.key) || w.fold.hasServed(mallory.key) {
			t.Error("hasServed is wrong")
		}
		worker.takes = 24 * time.Hour
		packed, taken := bundle(t, nil), 0
		for n := range 2 * newcomersBurst {
			r := task(t, packed)
			r.Job = fmt.Sprint(n)
			if _, err := w.sends(newPerson(byte(n%200+20)), r); err == nil {
				taken++
			} else {
				steptest.WantDrop(t, err, guild.Flood)
			}
		}
		if taken != newcomersBurst {
			t.Errorf("%d were taken", taken)
		}
		w.many(customer, "again", 1)
		w.pass(time.Minute)
		for n := range 2 * newcomersBurst {
			r := task(t, packed)
			r.Job = fmt.Sprint("later ", n)
			if _, err := w.sends(newPerson(byte(n%200+20)), r); err == nil {
				taken++
			}
		}
		if taken > 2*newcomersBurst+10 {
			t.Errorf("%d were taken in a minute", taken)
		}
	})
}

func TestRefusalsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, on(Terms{MinBid: 1}))
		packed := bundle(t, nil)
		for n := range 500 {
			r := task(t, packed)
			r.Job = fmt.Sprint(n)
			_, err := w.sends(mallory, r)
			steptest.WantDrop(t, err, lowBid)
		}
		if n := len(w.published); n != answersOneBurst {
			t.Errorf("one customer was told %d times", n)
		}
		for n := range 500 {
			r := task(t, packed)
			r.Job = fmt.Sprint(n)
			_, err := w.sends(newPerson(byte(n%200+20)), r)
			steptest.WantDrop(t, err, lowBid)
		}
		if n := len(w.published); n > answersAllBurst {
			t.Errorf("%d events", n)
		}
		if w.Journal.Last() != 0 {
			t.Error("strangers filled the journal")
		}
		w.pass(time.Minute)
		id, _ := w.sends(mallory, task(t, packed))
		if len(w.told(mallory, id)) != 1 {
			t.Error("after the flood a customer is told nothing")
		}
	})
}

func TestLimitersAreBounded(t *testing.T) {
	l, now := newLimits(), time.Unix(1e9, 0)
	s := Service{D: "x", Terms: Terms{PerMinute: 1}}
	for n := range 3 * maxKnown {
		l.allowRequest(s, nostr.PubKey{byte(n), byte(n >> 8), byte(n >> 16)}, now)
		if n := len(l.requests); n > maxKnown {
			t.Fatalf("%d are", n)
		}
	}
	slow := nostr.PubKey{31: 1}
	if !l.allowRequest(s, slow, now) || l.allowRequest(s, slow, now.Add(59*time.Second)) || !l.allowRequest(s, slow, now.Add(61*time.Second)) {
		t.Error("one in a minute is not one in a minute")
	}
	now = now.Add(time.Hour) // all have rested
	for n := range maxKnown {
		l.allowRequest(s, nostr.PubKey{byte(n), byte(n >> 8), 99}, now)
	}
	if n := len(l.requests); n > maxKnown {
		t.Errorf("%d are", n)
	}
}

func TestRepetitionsAndWithdrawalsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, wide(&runs{takes: 24 * time.Hour}))
		taken := 0
		for n := range 100 { // asks, and takes it back
			r := once(t, fmt.Sprint("back ", n), "")
			id, err := w.sends(mallory, r)
			if err != nil {
				steptest.WantDrop(t, err, guild.Flood)
				continue
			}
			if _, err := w.says(mallory, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", id.Hex()}}}); err == nil {
				taken++
			} else {
				steptest.WantDrop(t, err, guild.Flood)
			}
		}
		if taken != idleOneBurst || w.Journal.Last() > 400 {
			t.Errorf("%d were taken back, %d entries", taken, w.Journal.Last())
		}
		w.asks(customer, once(t, "first", "k1"))
		repeated := 0
		for n := range 60 {
			r := once(t, fmt.Sprint("again ", n), "k1")
			if _, err := w.sends(customer, r); err == nil {
				repeated++
			}
		}
		if repeated > idleOneBurst {
			t.Errorf("%d requests repeat another", repeated)
		}
	})
}
