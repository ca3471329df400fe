package wallet

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"guild/cashu"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
)

// dying is a wallet whose process ends at a point: before or after the n-th request to the mint or append to the journal.
type dying struct {
	*world
	at     string // the point, "" for none
	points []string
	n      int
	dead   bool
}

// reaches reports whether the process is dead, or dies at a point.
func (d *dying) reaches(point string) bool {
	if d.dead {
		return true
	}
	d.points = append(d.points, point)
	d.dead = point == d.at
	return d.dead
}

// append takes a decision, before or after which the process may die.
func (d *dying) append(what string, guard fact.Subject, decide func(*journal.Tx) error) {
	d.Helper()
	d.n++
	if d.reaches(fmt.Sprintf("%02d before append: %s", d.n, what)) {
		return
	}
	d.ok(d.journal.Do(d.Context(), guard, "", decide))
	d.checked()
	d.reaches(fmt.Sprintf("%02d after append: %s", d.n, what))
}

// restart opens the wallet as a new process if the old one died.
func (d *dying) restart() {
	d.Helper()
	if d.dead {
		d.open()
		d.dead, d.at = false, ""
		_ = d.work()
	}
}

// work does what is due until nothing is, or the process dies.
func (d *dying) work() error {
	d.Helper()
	for range 50 {
		before := d.journal.Last()
		for _, work := range d.Due(d.now) {
			decide, err := work.Act(d.Context())
			if d.dead || err != nil {
				return err
			}
			d.append("the mint's answer", work.Guard, decide)
		}
		if d.journal.Last() == before {
			return nil
		}
	}
	d.Fatal("it never ends")
	return nil
}

// operation plans an operation unless it was planned before the process died, and has it done.
func (d *dying) operation(op string, plan func() (fact.EcashPlanned, error)) {
	d.Helper()
	for {
		if !d.knows(op) {
			planned, err := plan()
			if err == nil {
				d.append("plan "+planned.Kind, fact.Ledger, func(tx *journal.Tx) error {
					tx.Append(planned)
					d.Planned(op)
					return nil
				})
			} else if !d.dead {
				d.Fatal(err)
			}
		}
		if !d.dead {
			if err := d.work(); err != nil && !d.dead {
				d.Fatal(err)
			}
		}
		if !d.dead {
			return
		}
		d.restart()
	}
}

// knows reports whether an operation was planned.
func (d *dying) knows(op string) (known bool) {
	d.Helper()
	for e, err := range d.journal.Entries(d.Context(), 1) {
		d.ok(err)
		for _, f := range e.Facts {
			if p, ok := f.(fact.EcashPlanned); ok && p.Op == op {
				known = true
			}
		}
	}
	return known
}

// life does an operation of each kind, and returns all points at which the process could have died.
func life(t *testing.T, at string) []string {
	t.Helper()
	b, other := newBank(t, 100), newWorld(t)
	d := &dying{world: newWorld(t), at: at}
	d.ok(d.AddMint(t.Context(), b.asset))
	d.line.cut = func(_ int, path string) (bool, bool) {
		d.n++
		path, _, _ = strings.Cut(path, "/0")
		if d.reaches(fmt.Sprintf("%02d before request: %s", d.n, path)) {
			return true, false
		}
		return false, d.reaches(fmt.Sprintf("%02d after request: %s", d.n, path))
	}
	spend := func(op string, lock *fact.EcashLock, parts ...uint64) {
		d.Helper()
		d.operation(op, func() (fact.EcashPlanned, error) {
			terms, err := d.Terms(t.Context(), b.asset)
			if err != nil {
				return fact.EcashPlanned{}, err
			}
			return d.PlanSpend(op, terms, "attempt", lock, parts...)
		})
	}
	take := func(op, kind string, proofs []cashu.Proof) {
		d.Helper()
		d.operation(op, func() (fact.EcashPlanned, error) {
			terms, err := d.Terms(t.Context(), b.asset)
			if err != nil {
				return fact.EcashPlanned{}, err
			}
			return d.PlanTake(op, kind, terms, "attempt", proofs)
		})
	}
	quote := ""
	d.operation("a0", func() (fact.EcashPlanned, error) {
		terms, err := d.Terms(t.Context(), b.asset)
		if err != nil {
			return fact.EcashPlanned{}, err
		}
		m, err := d.Mint(b.asset.Mint)
		d.ok(err)
		q, err := m.Quote(t.Context(), 1000, b.asset.Unit, cashu.Point{})
		quote = q.ID
		planned := fact.EcashPlanned{Op: "a0", Kind: Issue, Mint: b.asset.Mint, Unit: b.asset.Unit, Keyset: terms.Keyset.ID, Amount: 1000, Quote: quote}
		d.Fold().View(func(s *state) { planned.Outputs = outputs(s, terms.Keyset.ID, 1000) })
		return planned, err
	})
	spend("a1", nil, 300)
	given, err := d.Token("a1", "")
	d.ok(err)
	take("a2", Receive, given.Proofs)

	other.funded(b, 100)
	theirs := lockBetween(t, other.Wallet, d.Wallet, b.now.Add(time.Hour))
	other.plan(other.PlanSpend("b0", other.terms(b), "attempt", theirs, 64))
	other.ok(other.settle())
	take("a3", Claim, other.locked("b0", other.key(PayerKey), d.key(PayeeKey)))

	lock := lockBetween(t, d.Wallet, other.Wallet, b.now.Add(time.Hour))
	spend("a4", lock, 100, 50)
	coins, _ := d.Fold().Outputs("a4")
	var cosigned []string
	for _, p := range d.locked("a4", other.key(PayeeKey)) {
		w, err := cashu.ParseWitness(p.Witness)
		d.ok(err)
		cosigned = append(cosigned, w.Signatures...)
	}
	refund := func(op string, coins []fact.Coin, cosigned []string) {
		d.Helper()
		d.operation(op, func() (fact.EcashPlanned, error) {
			terms, err := d.Terms(t.Context(), b.asset)
			if err != nil {
				return fact.EcashPlanned{}, err
			}
			return d.PlanRefund(op, terms, "attempt", coins, cosigned)
		})
	}
	refund("a5", coins[:3], cosigned[:3])
	b.now = b.now.Add(2 * time.Hour)
	refund("a6", coins[3:], nil)
	points := d.points

	d.line.cut = nil
	fees := d.account(b, Fees)
	d.want(b, map[string]int64{Outside: -1300, Sent: 300, Earned: -64, Held: 0, Lost: 0, Free: 1000 + 64 - fees})
	if len(d.Due(d.now)) > 0 || d.dead {
		t.Error("there is more to do")
	}
	// A wallet that has nothing but the journal is the same.
	d.close()
	f := NewFold()
	d.journal = journaltest.Reopen(t, d.dir, f)
	d.ok(f.Check())
	return points
}

func TestKillAtEveryPoint(t *testing.T) {
	points := life(t, "")
	if len(points) < 60 {
		t.Errorf("%d points only", len(points))
	}
	died := 0
	for _, at := range points {
		if strings.HasSuffix(at, "keysets") && os.Getenv("GUILD_SOAK") == "" {
			continue // it changes nothing; make soak does it all the same
		}
		t.Run(at, func(t *testing.T) {
			if life(t, at); t.Failed() {
				died++
			}
		})
	}
	t.Logf("%d points, %d with a loss or a double:\n  %s", len(points), died, strings.Join(points, "\n  "))
}
