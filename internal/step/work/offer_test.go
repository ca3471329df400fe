package work

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/step/steptest"
	"guild/nip90"
)

// openly returns a request that names no provider.
func openly(tags ...nostr.Tag) nostr.Event {
	return nostr.Event{Kind: 5050, Tags: append(nostr.Tags{{"i", "text", "text"}, {"param", "job_type", "oa.summary.v1"}}, tags...)}
}

// solicits asks for an offer and no work.
var solicits = nostr.Tag{"param", "solicitation", "offer"}

func TestOfferAndNoWork(t *testing.T) {
	worker := &runs{}
	free, priced, open := summary(worker.do), summary(worker.do), summary(worker.do)
	priced.Price, open.Open = 2000, true
	for name, c := range map[string]struct {
		service Service
		request nostr.Event
		want    nip90.Feedback
	}{
		"for nothing":                       {free, openly(solicits), nip90.Feedback{Status: nip90.Processing, Text: "offer"}},
		"for nothing, asked by name":        {free, openly(solicits, nostr.Tag{"p", us.key.Hex()}), nip90.Feedback{Status: nip90.Processing, Text: "offer"}},
		"for nothing, and complete":         {free, openly(), nip90.Feedback{Status: nip90.Processing, Text: "offer"}},
		"for a price":                       {priced, openly(solicits), nip90.Feedback{Status: nip90.PaymentRequired, Text: "offer", Amount: 2000}},
		"from an open service":              {open, openly(solicits), nip90.Feedback{Status: nip90.Processing, Text: "offer"}},
		"from an open service, of nothing":  {open, openlyNothing(), nip90.Feedback{Status: nip90.Processing, Text: "offer"}},
		"from an open service with a price": {Service{Task: "oa.summary.v1", Open: true, Price: 1, Do: worker.do}, openly(), nip90.Feedback{Status: nip90.PaymentRequired, Text: "offer", Amount: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.service)
				id, err := w.says(customer, c.request)
				if err != nil {
					t.Fatal(err)
				}
				w.pass(time.Hour)
				told := w.told(customer, id)
				if len(told) != 1 || told[0].Status != c.want.Status || told[0].Text != c.want.Text || told[0].Amount != c.want.Amount {
					t.Errorf("told %+v", told)
				}
				if tag := w.sent(7000, id)[0].Tags.Find("amount"); c.want.Amount == 0 && tag != nil {
					t.Errorf("an offer for nothing says %v", tag)
				}
				if len(worker.list()) != 0 || w.Journal.Last() != 0 {
					t.Errorf("%d runs, %d entries", len(worker.list()), w.Journal.Last())
				}
			})
		})
	}
}

// openlyNothing returns a request that names no provider and has nothing to work on.
func openlyNothing() nostr.Event {
	return nostr.Event{Kind: 5050, Tags: nostr.Tags{{"param", "job_type", "oa.summary.v1"}}}
}

func TestOpenServiceWorksUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := summary(leaves(map[string]string{"out.txt": "done"}))
		s.Open = true
		w := newWorld(t, s)
		if r, _ := w.result(customer, 6050, w.does(customer, openly())); r.Content != "done" {
			t.Errorf("%+v", r)
		}
	})
}

func TestWorkAfterOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, summary(leaves(map[string]string{"out.txt": "done"})))
		if _, err := w.says(customer, openly(solicits)); err != nil {
			t.Fatal(err)
		}
		if r, _ := w.result(customer, 6050, w.does(customer, openly(nostr.Tag{"p", us.key.Hex()}))); r.Content != "done" {
			t.Errorf("%+v", r)
		}
	})
}

func TestNoRefusalOfOpenRequest(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Service)
		event  nostr.Event
		pause  bool
		want   guild.Reason
	}{
		"another task":             {nil, nostr.Event{Kind: 5050, Tags: nostr.Tags{{"i", "x", "text"}, {"param", "job_type", "cobol"}}}, false, guild.Misdirected},
		"another kind":             {nil, nostr.Event{Kind: 5100, Tags: nostr.Tags{{"i", "x", "text"}}}, false, guild.Misdirected},
		"paused":                   {nil, openly(), true, guild.Flood},
		"paused, and open":         {func(s *Service) { s.Open = true }, openly(), true, guild.Flood},
		"a bid that is too low":    {func(s *Service) { s.Terms.MinBid = 5 }, openly(nostr.Tag{"bid", "4"}), false, lowBid},
		"too little work, open":    {func(s *Service) { s.Terms.PoW, s.Open = 60, true }, openly(), false, lowWork},
		"a host that is not known": {func(s *Service) { s.Open = true }, openly(nostr.Tag{"i", "https://x.example/", "url"}), false, guild.Malformed},
		"what cannot be read":      {nil, nostr.Event{Kind: 5050, Content: "?", Tags: nostr.Tags{{"encrypted"}}}, false, guild.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := summary(echo)
				if c.change != nil {
					c.change(&s)
				}
				w := newWorld(t, s)
				if c.pause {
					if err := w.Pause(t.Context(), s.Task, false); err != nil {
						t.Fatal(err)
					}
				}
				last := w.Journal.Last()
				id, err := w.says(customer, c.event)
				steptest.WantDrop(t, err, c.want)
				w.pass(time.Minute)
				if told := w.told(customer, id); len(told) != 0 || w.Journal.Last() != last {
					t.Errorf("told %v", told)
				}
			})
		})
	}
}

func TestOffersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, summary(echo))
		offers := func(asked int) int {
			before := len(w.public(7000))
			for i := range asked { // each by another customer
				w.says(newPerson(byte(10+i)), openly(solicits, nostr.Tag{"d", fmt.Sprint(time.Now().UnixNano(), i)}))
			}
			return len(w.public(7000)) - before
		}
		if n := offers(100); n != offersPerMinute {
			t.Errorf("%d offers at once", n)
		}
		w.pass(time.Minute)
		if n := offers(100); n != offersPerMinute {
			t.Errorf("%d offers in the next minute", n)
		}
		if w.Journal.Last() != 0 {
			t.Error("facts were written")
		}
	})
}
