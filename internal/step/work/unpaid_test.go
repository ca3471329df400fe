package work

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/policy"
	"guild/internal/step/steptest"
)

// priced begins a world in which a task costs 5 sat, and returns how a request is paid.
func priced(t *testing.T, change func(*Service)) (w *world, pay func(nostr.ID)) {
	t.Helper()
	s := python(echo)
	s.Price, s.Unit = 5000, "sat"
	if change != nil {
		change(&s)
	}
	m := asking{paid: &sync.Map{}}
	w = newWorld(t, s)
	w.money = m
	w.restart()
	return w, func(id nostr.ID) {
		m.paid.Store(id, true)
		w.runner.Wake()
		w.pass(0)
	}
}

// order is one of a customer's requests.
func (w *world) order(p person, n int) (nostr.ID, error) {
	w.Helper()
	r := task(w.T, bundle(w.T, []byte("hello")))
	r.Job = fmt.Sprintf("job-%d", n)
	return w.sends(p, r)
}

func TestRequestsThatNobodyPaysLeaveTheQueueOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pay := priced(t, func(s *Service) { s.Slots, s.Queue = 1, 2 })
		for n := range 20 {
			if _, err := w.order(newPerson(byte(10+n/2)), n); err != nil {
				t.Fatalf("request %d: %v", n, err)
			}
		}
		if s := w.Services()[0]; s.Queued != 0 || s.Unpaid != 20 || w.capacity(w.Work.services["python"]).Idle != 1 {
			t.Errorf("%d queued, %d unpaid", s.Queued, s.Unpaid)
		}
		id, err := w.order(customer, 100)
		if err != nil {
			t.Fatal(err)
		}
		pay(id)
		w.opened(customer, id)
	})
}

func TestOneStrangersUnpaidRequestsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pay := priced(t, nil)
		var last nostr.ID
		for n := range unpaidOne {
			id, err := w.order(mallory, n)
			if err != nil {
				t.Fatal(err)
			}
			last = id
		}
		id, err := w.order(mallory, 100)
		steptest.WantDrop(t, err, guild.Flood)
		if told := w.told(mallory, id); len(told) != 1 || told[0].Text != "at capacity: 8 of your requests are not paid, try again later" {
			t.Errorf("told %+v", told)
		}
		pay(last)
		w.opened(mallory, last)
		for n := range unpaidOne { // who was delivered to is no stranger
			if _, err := w.order(mallory, 200+n); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestUnpaidRequestIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pay := priced(t, nil)
		paid, err := w.order(customer, 1)
		if err != nil {
			t.Fatal(err)
		}
		pay(paid)
		unpaid, err := w.order(mallory, 2)
		if err != nil {
			t.Fatal(err)
		}
		w.pass(payIn + time.Second)
		if told := w.told(mallory, unpaid); !strings.HasSuffix(told[len(told)-1].Text, "its price was not paid or locked in time") {
			t.Errorf("told %+v", told)
		}
		if s := w.Services()[0]; s.Delivered != 1 || s.Failed != 0 || s.Unpaid != 0 {
			t.Errorf("%+v", s.Figures)
		}
	})
}

func TestWithdrawnQuoteEndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := priced(t, nil)
		id, err := w.order(customer, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.says(customer, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", id.Hex()}}}); err != nil {
			t.Fatal(err)
		}
		if s := w.Services()[0]; s.Unpaid != 0 || s.Failed != 0 {
			t.Errorf("%d unpaid, %d failed", s.Unpaid, s.Failed)
		}
		seen := NewCustomers(policy.Specification())
		for _, e := range w.Entries() {
			seen.Apply(e)
		}
		if s := seen.Of(customer.key); s.Asked != 1 || s.Withdrawn != 0 {
			t.Errorf("the customer has withdrawn %d of %d: nobody worked on it", s.Withdrawn, s.Asked)
		}
	})
}

func TestPriceThatNobodyCanPayIsWarnedOf(t *testing.T) {
	var said bytes.Buffer
	s := python(echo)
	s.Price, s.Unit = 5000, "sat"
	New(Config{Services: []Service{s}, Log: slog.New(slog.NewTextHandler(&said, nil))}, NewFold()).warnUnpayable()
	if !strings.Contains(said.String(), "guild wallet add mint URL --unit sat, or guild wallet add nwc") {
		t.Errorf("said %q", &said)
	}
	said.Reset()
	New(Config{Services: []Service{s}, Money: asking{}, Log: slog.New(slog.NewTextHandler(&said, nil))}, NewFold()).warnUnpayable()
	if said.Len() > 0 {
		t.Errorf("said %q, and it can be paid", &said)
	}
}
