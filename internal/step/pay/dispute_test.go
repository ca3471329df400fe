package pay

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/cashu"
	"guild/internal/hand/dm"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// TestCaseWithOtherAmounts has a provider that says other amounts of its coins, so that a ruling would give it more than the arbiter meant.
func TestCaseWithOtherAmounts(t *testing.T) {
	w := judgedLock(t, guild.Failure, guild.Strong)
	w.change = func(from *party, m *dm.Message) {
		c, err := dm.DecodeCase(m.Content)
		if from != w.provider || err != nil {
			return
		}
		n := len(c.Coins)
		for i := range c.Coins {
			c.Coins[i].Amount = 1
		}
		c.Coins[n-1].Amount = 200 - uint64(n-1)
		c.Coins = append(slices.Clone(c.Coins[:n-1]), c.Coins[n-1])
		c.Coins[n-2].Amount = 200 - uint64(n-2)
		c.Coins[n-1].Amount = 300
		m.Content, err = c.Encode()
		w.ok(err)
	}
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	w.pump()
	if cases := w.arbiter.Cases(); len(cases) != 0 {
		w.ok(w.arbiter.Rule(t.Context(), attempt, 200, ""))
		w.pump()
		t.Errorf("the arbiter takes it, and the provider has %d of 200", w.has(w.provider, wallet.Free))
	}
}

// TestRulingBetweenReleaseAndItsFact has an arbiter that gives less than what the customer is about to release, or has released.
func TestRulingBetweenReleaseAndItsFact(t *testing.T) {
	w := judgedLock(t, guild.Success, guild.Weak) // waits for a person
	w.later(2*time.Hour + time.Minute)
	w.ok(w.provider.Object(t.Context(), attempt, "no verdict"))
	w.pump()
	w.ok(w.arbiter.Rule(t.Context(), attempt, 200, "")) // the ruling is on its way while a person approves all
	w.ok(w.customer.Approve(t.Context(), attempt, 500))
	for len(facts[fact.PaymentReleased](w, w.customer)) == 0 {
		if !w.step(w.customer) {
			t.Fatal("no release")
		}
	}
	late := w.provider.inbox // the provider hears the arbiter first
	w.provider.inbox = nil
	for w.step(w.arbiter) || w.step(w.provider) {
	}
	w.provider.inbox = append(w.provider.inbox, late...)
	w.pump()
	w.want(9500, 0, 500)
	w.over()
}

// TestRulingBeforeTheFactOfARelease has a customer that dies when its release is sent, and wakes up to a ruling of less.
func TestRulingBeforeTheFactOfARelease(t *testing.T) {
	w := newWorld(t, contested(), 500)
	w.pump()
	w.judged(guild.Success, guild.Mixed)
	w.at = "the customer dies before: release the payment for"
	w.points = nil
	for w.at != "" {
		if !w.step(w.customer) {
			t.Fatal("no release")
		}
	}
	for w.step(w.provider) { // it claims at once
	}
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	for w.step(w.provider) || w.step(w.arbiter) {
	}
	w.ok(w.arbiter.Rule(t.Context(), attempt, 0, ""))
	for w.step(w.provider) || w.step(w.arbiter) {
	}
	w.pump()
	w.later(2 * time.Minute)
	w.want(9800, 0, 200)
	w.over()
	if lost := w.has(w.customer, wallet.Lost); lost != 0 {
		t.Errorf("%d are lost", lost)
	}
}

// TestRulingForOneOfThem has an arbiter that tells the customer that all is the provider's, and the provider nothing.
func TestRulingForOneOfThem(t *testing.T) {
	w := judgedLock(t, guild.Success, guild.Mixed)
	content, err := dm.Signatures{Type: dm.TypeRuling, Request: attempt, Amount: 500, Signatures: map[string]string{}}.Encode()
	w.ok(err)
	w.ok(w.customer.TakeRuling(t.Context(), dm.Message{From: w.arbiter.pubkey, Content: content, ID: nostr.ID{5}}))
	w.pump()
	w.later(10 * 24 * time.Hour)
	w.want(9500, 0, 500) // nobody's money is gone
	w.over()
}

// TestRulingThatNobodyAskedFor has an arbiter that rules before there is a verdict, or an objection.
func TestRulingThatNobodyAskedFor(t *testing.T) {
	w := newWorld(t, contested(), 500)
	w.pump()
	key, err := w.arbiter.arbiterKey()
	w.ok(err)
	s := dm.Signatures{Type: dm.TypeRuling, Request: attempt, Signatures: map[string]string{}}
	nothing, err := s.Encode()
	w.ok(err)
	for _, proof := range facts[fact.LockOffered](w, w.provider)[0].Proofs {
		var witness cashu.Witness
		w.ok(witness.Sign(key, proof.Secret))
		s.Signatures[cashu.HashToCurve(proof.Secret).String()] = witness.Signatures[0]
	}
	all, err := s.Encode()
	w.ok(err)
	for p, content := range map[*party]string{w.provider: nothing, w.customer: all} {
		err := p.TakeRuling(t.Context(), dm.Message{From: w.arbiter.pubkey, Content: content, ID: nostr.ID{5}})
		if _, dropped := errors.AsType[*guild.DropError](err); !dropped {
			t.Errorf("a ruling that nobody asked for: %v", err)
		}
	}
	w.judged(guild.Success, guild.Strong)
	w.pump()
	w.want(9500, 0, 500)
	w.over()
}

// TestRulingWhileTheCustomerRefunds has a ruling that comes when the locktime is over and the mint is about to give the rest back.
func TestRulingWhileTheCustomerRefunds(t *testing.T) {
	w := disputed(t, guild.Success, guild.Mixed)
	w.ok(w.arbiter.Rule(t.Context(), attempt, 500, ""))
	for w.step(w.arbiter) {
	}
	late := w.customer.inbox
	w.customer.inbox, w.provider.inbox = nil, nil // the provider is never told
	w.now = w.now.Add(200 * time.Hour)
	for w.customer.fold.open()[0].Refund == "" {
		if !w.step(w.customer) {
			t.Fatal("no refund")
		}
	}
	w.customer.inbox = late
	w.pump()
	w.want(9800, 0, 200)
	w.over()
	if n := len(facts[fact.AttemptReleased](w, w.customer)); n != 1 {
		t.Errorf("%d receipts", n)
	}
}

// TestUseOfTodayAfterARuling checks that a ruling on money of another day leaves what is counted today.
func TestUseOfTodayAfterARuling(t *testing.T) {
	w := newWorld(t, contested(), 500)
	w.ok(w.customer.SetBudget(t.Context(), fact.BudgetSet{Unit: "test", Daily: 1000}))
	w.pump()
	w.judged(guild.Success, guild.Mixed)
	w.pump()
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	w.now = w.now.Add(24 * time.Hour)
	w.pump()
	w.customer.fold.Change(func(s *state) { // as another payment of today does
		s.reserve(fact.PaymentReserved{Unit: "test", Amount: 700}, w.now.UnixMilli())
	})
	w.ok(w.arbiter.Rule(t.Context(), attempt, 500, ""))
	w.pump()
	if b := w.customer.Budgets(); len(b) != 1 || b[0].Today < 700 {
		t.Errorf("used %+v, want 700 today", b)
	}
}

// TestRulingWhileAClaimIsPlanned has a ruling of more that comes while the provider asks the mint for its terms.
func TestRulingWhileAClaimIsPlanned(t *testing.T) {
	w := newWorld(t, contested(), 500)
	w.pump()
	w.judged(guild.Success, guild.Mixed)
	for len(facts[fact.LockReleased](w, w.provider)) == 0 {
		if !w.step(w.customer) && !w.step(w.provider) {
			t.Fatal("no release")
		}
	}
	claim := w.provider.claim(w.provider.fold.locks()[0])
	decide, err := claim.Act(t.Context())
	w.ok(err)
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	for w.step(w.arbiter) {
	}
	w.ok(w.arbiter.Rule(t.Context(), attempt, 500, ""))
	for w.step(w.arbiter) {
	}
	w.ok(w.provider.takes(t.Context(), w.provider.inbox[0]))
	w.provider.inbox = nil
	w.ok(w.provider.journal.Do(t.Context(), claim.Guard, claim.Key, decide))
	w.pump()
	w.want(9500, 0, 500)
	w.over()
}

// TestRulingForTheCustomerAlone has a ruling that the customer hears, and the provider does not.
func TestRulingForTheCustomerAlone(t *testing.T) {
	w := disputed(t, guild.Success, guild.Mixed)
	w.provider.deaf = true
	w.ok(w.arbiter.Rule(t.Context(), attempt, 500, ""))
	for w.step(w.arbiter) {
	}
	w.provider.deaf = false
	w.pump()
	w.want(9500, 0, 500)
	w.over()
}

// TestReceiptOfARestThatNeverComesBack has a mint that never gives the rest back.
func TestReceiptOfARestThatNeverComesBack(t *testing.T) {
	w := judgedLock(t, guild.Success, guild.Mixed)
	w.now = w.now.Add(200 * time.Hour)
	for _, work := range w.customer.Due(w.now) { // all but what needs the mint
		if !work.Ready.After(w.now) && work.Guard == fact.JobSubject(theJob) {
			decide, err := work.Act(t.Context())
			w.ok(err)
			w.ok(w.customer.journal.Do(t.Context(), work.Guard, work.Key, decide))
		}
	}
	if n := len(facts[fact.AttemptReleased](w, w.customer)); n != 1 {
		t.Errorf("%d receipts", n)
	}
	w.pump()
	w.want(9800, 0, 200)
	w.over()
}

// TestDyingInAnObjection checks that a provider that dies when it has asked the arbiter does not give the rest back meanwhile.
func TestDyingInAnObjection(t *testing.T) {
	w := judgedLock(t, guild.Success, guild.Mixed)
	send := w.provider.c.Send
	w.provider.c.Send = func(ctx context.Context, e guild.Verified, to nostr.PubKey) error {
		w.ok(send(ctx, e, to))
		return errDead
	}
	if err := w.provider.Object(t.Context(), attempt, "more"); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	w.open(w.provider)
	w.later(objecting + time.Hour)
	w.ok(w.arbiter.Rule(t.Context(), attempt, 500, ""))
	w.pump()
	w.want(9500, 0, 500)
	w.over()
}

// TestFloodOfCases has objections about coins that no mint knows.
func TestFloodOfCases(t *testing.T) {
	w := newWorld(t, contested(), 500)
	key, err := w.arbiter.arbiterKey()
	w.ok(err)
	n := 0
	send := func(locked time.Duration) error {
		n++
		c := dm.Case{Request: nostr.ID{1, byte(n)}, Customer: w.customer.pubkey, Mint: w.asset.Mint, Unit: "test", Salt: [32]byte{1}, Reason: "more"}
		secret, err := cashu.Condition{
			Kind: cashu.P2PK, Keys: []cashu.Point{cashu.RandomScalar().PubKey(), cashu.RandomScalar().PubKey(), key.PubKey()}, Sigs: 2,
			Locktime: w.now.Add(locked).Unix(), Nonce: wallet.Nonce(parties(c.Salt, c.Request, c.Customer, w.provider.pubkey, []uint64{8}), 0),
		}.Secret()
		w.ok(err)
		c.Coins = []fact.LockedCoin{{Amount: 8, Secret: secret}}
		content, err := c.Encode()
		w.ok(err)
		return w.arbiter.TakeCase(t.Context(), dm.Message{From: w.provider.pubkey, Content: content, ID: nostr.ID{2, byte(n)}})
	}
	if send(100*24*time.Hour) == nil {
		t.Error("a case takes a place for a hundred days")
	}
	for range maxCasesOf {
		w.ok(send(time.Minute))
	}
	w.later(2 * time.Minute)
	if len(w.arbiter.Cases()) != 0 {
		t.Error("cases of money that is gone")
	}
	if send(time.Hour) == nil {
		t.Error("cases of a minute are written without end")
	}
	w.later(24 * time.Hour)
	w.ok(send(time.Hour))
	w.pump()
	w.ok(w.arbiter.Rule(t.Context(), nostr.ID{1, byte(n)}, 0, ""))
	for range maxCasesOf { // what is ruled on takes no place
		w.ok(send(time.Hour))
	}
}

// TestLostToAnUnheardRuling checks the receipt and the books of a customer that never hears what it lost.
func TestLostToAnUnheardRuling(t *testing.T) {
	for _, o := range []guild.Outcome{guild.Failure, guild.Success} {
		w := disputed(t, o, guild.Mixed)
		w.customer.deaf = true
		w.ok(w.arbiter.Rule(t.Context(), attempt, 500, ""))
		w.pump()
		w.later(200 * time.Hour)
		w.later(2 * time.Hour)
		if released := facts[fact.AttemptReleased](w, w.customer); len(released) != 1 || released[0].Rule != ruleArbiter || released[0].Amount != 500_000 {
			t.Errorf("%+v", released)
		}
		if refunded := facts[fact.AttemptRefunded](w, w.customer); len(refunded) != 0 {
			t.Errorf("a receipt says that the money came back: %+v", refunded)
		}
		w.want(9500, 0, 500)
		w.over()
	}
}

// TestReturnsAndObjects has a provider that signs the rest back and has the arbiter give it to itself.
func TestReturnsAndObjects(t *testing.T) {
	w := disputed(t, guild.Success, guild.Mixed)
	l := w.provider.fold.locks()[0]
	_, err := w.provider.giveBack(l).Act(t.Context())
	w.ok(err)
	w.ok(w.arbiter.Rule(t.Context(), attempt, 500, ""))
	w.pump()
	w.later(200 * time.Hour)
	w.later(2 * time.Hour)
	w.over()
}

// TestOrdersOfHearing has parties that hear a ruling one after the other, and are opened again between.
func TestOrdersOfHearing(t *testing.T) {
	for _, c := range []struct {
		o     guild.Outcome
		s     guild.Strength
		ruled uint64
		paid  int64
	}{{guild.Success, guild.Mixed, 500, 500}, {guild.Success, guild.Mixed, 0, 200}, {guild.Failure, guild.Strong, 200, 200}, {guild.Success, guild.Weak, 200, 200}, {guild.Success, guild.Weak, 0, 0}, {guild.Success, guild.Weak, 500, 500}} {
		for order := range 4 {
			w := judgedLock(t, c.o, c.s)
			w.later(2*time.Hour + time.Minute)
			w.ok(w.provider.Object(t.Context(), attempt, "more"))
			w.pump()
			w.ok(w.arbiter.Rule(t.Context(), attempt, c.ruled, ""))
			for w.step(w.arbiter) {
			}
			first, second := w.customer, w.provider
			if order&1 == 1 {
				first, second = second, first
			}
			late := second.inbox
			second.inbox = nil
			for w.step(first) {
			}
			if order&2 == 2 {
				for w.step(second) {
				}
				w.open(first)
				w.open(second)
			}
			second.inbox = append(second.inbox, late...)
			for w.step(second) {
			}
			w.pump()
			w.later(2 * time.Minute)
			w.want(10_000-c.paid, 0, c.paid)
			w.over()
			if n := len(facts[fact.AttemptReleased](w, w.customer)) + len(facts[fact.AttemptRefunded](w, w.customer)); n != 1 || t.Failed() {
				t.Fatalf("%+v %d: %d receipts", c, order, n)
			}
		}
	}
}

// TestWaitsWhileDisputed checks that the owner is asked although the provider has asked the arbiter.
func TestWaitsWhileDisputed(t *testing.T) {
	w := judgedLock(t, guild.Success, guild.Weak)
	w.later(2*time.Hour + time.Minute)
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	w.pump()
	for _, o := range w.customer.Paying() {
		if !o.Waits {
			t.Errorf("the owner is not asked: %+v", o)
		}
	}
	w.ok(w.customer.Approve(t.Context(), attempt, 500))
	w.pump()
	w.want(9500, 0, 500)
	w.over()
	if err := w.arbiter.Rule(t.Context(), attempt, 0, ""); err != nil {
		t.Fatal(err)
	}
	w.pump()
	w.want(9500, 0, 500)
	w.over()
}

// TestMintIsDownAtARuling has a mint that does not answer the provider, nor the customer, until the locktime is over.
func TestMintIsDownAtARuling(t *testing.T) {
	for _, ruled := range []int64{500, 200, 0} {
		w := disputed(t, guild.Success, guild.Mixed)
		w.ok(w.arbiter.Rule(t.Context(), attempt, uint64(ruled), ""))
		for w.step(w.arbiter) {
		}
		for len(w.provider.inbox)+len(w.customer.inbox) > 0 { // they hear it, and die when they ask the mint
			for _, p := range []*party{w.customer, w.provider} {
				if len(p.inbox) > 0 {
					w.ok(p.takes(t.Context(), p.inbox[0]))
					p.inbox = p.inbox[1:]
				}
				w.open(p)
			}
		}
		w.later(40 * time.Hour)
		w.want(10_000-max(200, ruled), 0, max(200, ruled))
		w.over()
	}
}

// TestRepairThatLostTheReservation has facts about a payment whose reservation is lost.
func TestRepairThatLostTheReservation(t *testing.T) {
	w := newWorld(t, contested(), 500)
	w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptHeld{Attempt: attempt, Amount: 500_000})
	w.writes(w.customer, fact.Ledger, fact.PaymentDecided{Attempt: attempt, Amount: 200}, fact.PaymentReleased{Attempt: attempt, Amount: 200}, fact.PaymentRuled{Attempt: attempt, Amount: 500}, fact.PaymentReleased{Attempt: attempt, Amount: 300})
	w.judged(guild.Success, guild.Mixed)
	w.customer.Paying()
	w.customer.Busy(attempt)
	w.customer.Due(w.now)
	w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptReleased{Attempt: attempt, Amount: 500_000})
	w.customer.Due(w.now)
}

// TestRulingBeforeTheAttemptEnds has a ruling on work about which the customer has no verdict.
func TestRulingBeforeTheAttemptEnds(t *testing.T) {
	for _, ruled := range []int64{0, 200, 500} {
		w := newWorld(t, contested(), 500)
		w.pump()
		w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: "delivered"})
		w.later(2*time.Hour + time.Minute)
		w.ok(w.provider.Object(t.Context(), attempt, "no verdict"))
		w.pump()
		w.ok(w.arbiter.Rule(t.Context(), attempt, uint64(ruled), ""))
		w.pump()
		w.want(10_000-ruled, 0, ruled)
		w.ends(fact.AttemptExpired{Attempt: attempt, Silent: true})
		w.pump()
		w.want(10_000-ruled, 0, ruled)
		w.over()
		if n := len(facts[fact.AttemptReleased](w, w.customer)) + len(facts[fact.AttemptRefunded](w, w.customer)); n != 1 {
			t.Errorf("%d receipts", n)
		}
	}
}

// TestCustomerReleasesCoinByCoin checks that a provider gets all of what is released in many messages.
func TestCustomerReleasesCoinByCoin(t *testing.T) {
	w := judgedLock(t, guild.Failure, guild.Strong)
	l := w.provider.fold.locks()[0]
	one := w.customer.fold.open()[0]
	coins, _ := w.customer.wallet.Fold().Outputs(one.Reserved.Op)
	for i, c := range coins {
		signed, _, err := w.customer.signed(t.Context(), one, coins[i:i+1])
		w.ok(err)
		_ = c
		content, err := dm.Signatures{Type: dm.TypeRelease, Request: l.Request, Amount: 1, Signatures: signed}.Encode()
		w.ok(err)
		w.ok(w.provider.send(t.Context(), w.provider.pubkey, "", content))
		m := w.provider.inbox[len(w.provider.inbox)-1]
		w.provider.inbox = nil
		m.From = w.customer.pubkey
		w.ok(w.provider.TakeRelease(t.Context(), m))
		for w.step(w.provider) {
		}
	}
	if got := w.has(w.provider, wallet.Free); got != 500 {
		t.Errorf("%d", got)
	}
	if l := w.provider.fold.locks(); len(l) > 0 {
		t.Errorf("%+v", l)
	}
}

// TestJobClosesBeforeARuling has a budget of everything that a payment is within, and a job that is closed while the arbiter decides.
func TestJobClosesBeforeARuling(t *testing.T) {
	w := newWorld(t, contested(), 500)
	for _, b := range []fact.BudgetSet{{Unit: "test", Job: 900, Daily: 1000, Monthly: 2000}, {Unit: "test", Task: "python", Daily: 1000}, {Unit: "test", Provider: w.provider.pubkey, Monthly: 1000}} {
		w.ok(w.customer.SetBudget(t.Context(), b))
	}
	w.pump()
	w.judged(guild.Failure, guild.Strong)
	w.pump()
	w.writes(w.customer, fact.JobSubject(theJob), fact.JobClosed{Job: theJob, Ending: guild.JobRejected})
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	w.pump()
	w.open(w.customer)
	w.ok(w.arbiter.Rule(t.Context(), attempt, 200, ""))
	w.pump()
	w.want(9800, 0, 200)
	w.over()
	for _, b := range w.customer.Budgets() {
		if b.Month != 200 || b.Daily > 0 && b.Today != 200 {
			t.Errorf("%+v", b)
		}
	}
	w.customer.fold.View(func(s *state) {
		for job, o := range s.Orders.All() {
			t.Errorf("the order of job %v is not forgotten: %+v", job, o)
		}
	})
}

// TestCustomerCannotBeTold has an arbiter that cannot reach the customer, and a provider that gets its part all the same.
func TestCustomerCannotBeTold(t *testing.T) {
	w := judgedLock(t, guild.Failure, guild.Strong)
	send := w.arbiter.c.Send
	w.arbiter.c.Send = func(ctx context.Context, e guild.Verified, to nostr.PubKey) error {
		if to == w.customer.pubkey {
			return errDead
		}
		return send(ctx, e, to)
	}
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	for w.step(w.provider) {
	}
	w.ok(w.arbiter.takes(t.Context(), w.arbiter.inbox[0]))
	w.arbiter.inbox = nil
	w.ok(w.arbiter.Rule(t.Context(), attempt, 500, ""))
	for _, work := range w.arbiter.Due(w.now) {
		if !work.Ready.After(w.now) {
			if _, err := work.Act(t.Context()); err == nil {
				t.Errorf("%s: no error", work.Key)
			}
		}
	}
	for w.step(w.provider) {
	}
	if got := w.has(w.provider, wallet.Free); got != 500 {
		t.Errorf("the provider has %d", got)
	}
}
