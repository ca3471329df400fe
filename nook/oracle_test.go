package nook_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"guild/nook"
)

// The oracle computes everything anew from the whole history, with decimal numbers of 60 digits. It shares no code with the
// engine: it knows events and the text of the rules only.

const (
	oracleHour = 3_600_000
	oracleDay  = 24 * oracleHour
)

var (
	scale  = new(big.Int).Exp(big.NewInt(10), big.NewInt(60), nil)
	logs   = map[int]*big.Int{} // by n
	micros = big.NewInt(1_000_000)
)

// decimalLn returns ln(n) * 10^60. It takes square roots until the number is near 1, and then the series of ln(1+x).
func decimalLn(n int) *big.Int {
	if l := logs[n]; l != nil {
		return l
	}
	wide := new(big.Int).Exp(big.NewInt(10), big.NewInt(90), nil)
	x := new(big.Int).Mul(big.NewInt(int64(n)), wide)
	roots := uint(0)
	for ; new(big.Int).Sub(x, wide).Cmp(new(big.Int).Div(wide, big.NewInt(1000))) > 0; roots++ {
		x.Sqrt(x.Mul(x, wide))
	}
	d := new(big.Int).Sub(x, wide)
	sum, power := new(big.Int), new(big.Int).Set(d)
	for k := int64(1); power.Sign() != 0; k++ {
		term := new(big.Int).Quo(power, big.NewInt(k))
		if k%2 == 0 {
			term.Neg(term)
		}
		sum.Add(sum, term)
		power.Quo(power.Mul(power, d), wide)
	}
	sum.Lsh(sum, roots)
	l := sum.Quo(sum, new(big.Int).Exp(big.NewInt(10), big.NewInt(30), nil))
	logs[n] = l
	return l
}

// decimalRaw returns sqrt(tokens/1000) * ln(units+1) in micro-sparks, rounded to the nearest.
func decimalRaw(tokens int64, units int) int64 {
	if tokens == 0 || units == 0 {
		return 0
	}
	root := new(big.Int).Mul(big.NewInt(tokens), new(big.Int).Mul(scale, scale))
	root.Sqrt(root.Quo(root, big.NewInt(1000)))
	product := root.Mul(root, decimalLn(units+1))
	product.Mul(product, micros)
	product.Quo(product, scale) // now micro-sparks * 10^60
	product.Add(product, new(big.Int).Quo(scale, big.NewInt(2)))
	return product.Quo(product, scale).Int64()
}

// decimalRated returns what raw micro-sparks are worth after earned ones on the same day: the day's curve turns the sum of raw
// sparks into earned ones, and the oracle walks on from the place that earns what was earned.
func decimalRated(earned, raw int64) int64 {
	curve := []struct{ raw, earned int64 }{{0, 0}, {100e6, 100e6}, {300e6, 200e6}, {700e6, 300e6}}
	place := big.NewRat(700e6, 1)
	for i := range 3 {
		from, to := curve[i], curve[i+1]
		if earned >= from.earned && earned < to.earned {
			place = new(big.Rat).Mul(big.NewRat(earned-from.earned, 1), big.NewRat(to.raw-from.raw, to.earned-from.earned))
			place.Add(place, big.NewRat(from.raw, 1))
		}
	}
	place.Add(place, big.NewRat(raw, 1))
	worth := big.NewRat(300e6, 1)
	for i := range 3 {
		from, to := curve[i], curve[i+1]
		if place.Cmp(big.NewRat(from.raw, 1)) >= 0 && place.Cmp(big.NewRat(to.raw, 1)) < 0 {
			worth = new(big.Rat).Sub(place, big.NewRat(from.raw, 1))
			worth.Mul(worth, big.NewRat(to.earned-from.earned, to.raw-from.raw))
			worth.Add(worth, big.NewRat(from.earned, 1))
		}
	}
	worth.Sub(worth, big.NewRat(earned, 1))
	twice := new(big.Int).Mul(worth.Num(), big.NewInt(2))
	twice.Add(twice, worth.Denom())
	return new(big.Int).Quo(twice, new(big.Int).Mul(worth.Denom(), big.NewInt(2))).Int64()
}

// accepted returns the events that count, in order.
func accepted(history []nook.Recorded) []nook.Recorded {
	var kept []nook.Recorded
	var latest int64
	for _, r := range history {
		latest = max(latest, r.Arrived)
		old := r.Event.Timestamp < latest-oracleDay
		again := slices.ContainsFunc(kept, func(k nook.Recorded) bool {
			return k.Event.ID == r.Event.ID && k.Event.Timestamp >= latest-oracleDay
		})
		if !old && !again {
			kept = append(kept, r)
		}
	}
	slices.SortStableFunc(kept, func(x, y nook.Recorded) int {
		return cmp.Or(cmp.Compare(x.Event.Timestamp, y.Event.Timestamp), cmp.Compare(x.Event.ID, y.Event.ID))
	})
	return kept
}

// award is what an accepted event earned.
type award struct {
	nook.Recorded
	sparks int64
}

func oracle(history []nook.Recorded) []award {
	var all []award
	for _, r := range accepted(history) {
		e := r.Event
		units := map[string]bool{}
		var hour, day int64
		for _, before := range all {
			b := before.Event
			if b.WorkUnitID != "" && b.Trigger == "" && b.Timestamp > e.Timestamp-oracleDay {
				units[b.WorkUnitID] = true
			}
			if b.Timestamp/oracleHour == e.Timestamp/oracleHour {
				hour += before.sparks
			}
			if b.Timestamp/oracleDay == e.Timestamp/oracleDay {
				day += before.sparks
			}
		}
		if e.WorkUnitID != "" {
			units[e.WorkUnitID] = true
		}
		a := award{Recorded: r}
		if e.Type == "agent.completed" && e.Trigger == "" && (e.Success == nil || *e.Success) {
			a.sparks = decimalRated(day, decimalRaw(e.Tokens, len(units)))
			a.sparks = min(a.sparks, 50e6-hour)
			a.sparks = min(a.sparks, 300e6-day)
		}
		all = append(all, a)
	}
	return all
}

// randomHistory returns a history in the order of its arrival: bursts of work over some days, of several agents, with late, repeated,
// failed and unfinished work, and a clock that sometimes jumps.
func randomHistory(r *rand.Rand) []nook.Recorded {
	var history []nook.Recorded
	now := int64(1_764_201_600_000) + r.Int64N(oracleDay)
	heavy := r.IntN(3)
	for range 1 + r.IntN(60) {
		switch r.IntN(12) {
		case 0:
			now += r.Int64N(oracleDay)
		case 1, 2:
			now += r.Int64N(4 * oracleHour)
		case 3:
			now -= r.Int64N(oracleHour)
		default:
			now += r.Int64N(600_000)
		}
		e := nook.Event{ID: fmt.Sprint(r.IntN(200)), Type: nook.TypeCompleted, AgentID: fmt.Sprint("agent ", r.IntN(3)), Timestamp: now}
		switch r.IntN(4) {
		case 0:
			e.Timestamp -= r.Int64N(oracleDay + oracleHour)
		case 1:
			e.Timestamp -= r.Int64N(oracleHour)
		case 2:
			e.Timestamp -= e.Timestamp % oracleHour // many at one time, and exactly 24 hours apart
		}
		if r.IntN(5) > 0 {
			e.WorkUnitID = fmt.Sprint(r.IntN(1 + r.IntN(30)))
		}
		e.Tokens = r.Int64N(1 + int64(1)<<r.IntN(16+8*heavy))
		switch r.IntN(15) {
		case 0:
			e.Type, e.Tokens, e.WorkUnitID = nook.TypeFailed, 0, ""
		case 1:
			e.Type = nook.TypeStarted
		case 2:
			e.Success = no()
		case 3:
			e.Success = yes()
		case 4:
			e.Trigger, e.Tokens = nook.TriggerCommit, 0
		case 5:
			e.Type, e.Tokens, e.WorkUnitID = nook.TypeIdle, 0, ""
		}
		history = append(history, nook.Recorded{Event: e, Arrived: now, Level: nook.Level(r.IntN(3))})
	}
	return history
}

func TestEngineAgreesWithOracle(t *testing.T) {
	histories := 10_000
	if testing.Short() {
		histories = 500
	}
	events, earning, capped := 0, 0, 0
	for seed := range histories {
		history := randomHistory(rand.New(rand.NewPCG(uint64(seed), 19)))
		want := oracle(history)
		a := nook.New("root")
		for i, r := range history {
			a.Add(r)
			if seed%3 == 0 && i%7 == 0 {
				a.Sparks() // a reader changes nothing
			}
			if seed%5 == 1 && i%11 == 10 {
				next := new(nook.Account) // nor does a restart
				if err := json.Unmarshal([]byte(snapshot(t, a)), next); err != nil {
					t.Fatal(err)
				}
				a = next
			}
		}
		traces := map[string]nook.Trace{}
		for tr := range nook.Traces("root", slices.Values(history)) {
			if tr.Zero == "" || !isRefused(tr.Zero) {
				traces[fmt.Sprint(tr.Timestamp, tr.ID)] = tr
			}
		}
		last := history[len(history)-1].Arrived
		for _, r := range history {
			last = max(last, r.Arrived)
		}
		var life, days, weeks nook.Split
		agents := map[string]nook.Sparks{}
		for _, w := range want {
			e, s := w.Event, nook.Sparks(w.sparks)
			if got := traces[fmt.Sprint(e.Timestamp, e.ID)].Earned; got != s {
				t.Fatalf("seed %d: event %s at %d: %s, want %s", seed, e.ID, e.Timestamp, got, s)
			}
			if s > 0 {
				earning++
			}
			if c := traces[fmt.Sprint(e.Timestamp, e.ID)]; c.Earned < c.Raw {
				capped++
			}
			life[w.Level] += s
			agents[e.AgentID] += s
			if e.Timestamp/oracleHour > last/oracleHour-24 {
				days[w.Level] += s
			}
			if e.Timestamp/oracleHour > last/oracleHour-7*24 {
				weeks[w.Level] += s
			}
		}
		events += len(history)
		if got := a.Totals(last); got != (nook.Projection{Lifetime: life, Day: days, Week: weeks}) {
			t.Fatalf("seed %d: %+v, want %v %v %v", seed, got, life, days, weeks)
		}
		for _, g := range a.Agents(last) {
			if g.Lifetime.Total() != agents[g.ID] {
				t.Fatalf("seed %d: %s has %s, want %s", seed, g.ID, g.Lifetime.Total(), agents[g.ID])
			}
		}
	}
	t.Logf("%d histories, %d events, %d earned, %d of them less than the formula", histories, events, earning, capped)
}

func TestExportedHistoryImportsTheSame(t *testing.T) {
	for seed := range uint64(500) {
		history := randomHistory(rand.New(rand.NewPCG(seed, 7)))
		for i := range history {
			history[i].Event.ID = fmt.Sprint(i) // an id that is used again after its time is a duplicate in an import
		}
		events := map[string]nook.Event{}
		for _, r := range accepted(history) {
			events[fmt.Sprint(r.Event.Timestamp, r.Event.ID)] = r.Event
		}
		a := nook.New("root")
		for tr := range nook.Traces("root", slices.Values(history)) {
			if isRefused(tr.Zero) {
				continue
			}
			if err := a.Import(events[fmt.Sprint(tr.Timestamp, tr.ID)]); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := a.Imported(0).Lifetime.Total(), lifetime(fold(history...)); got != want {
			t.Fatalf("seed %d: %s, want %s", seed, got, want)
		}
	}
}

func isRefused(why string) bool {
	return why == "duplicate: the id was recorded before" || why == "older than 24 h when it arrived"
}

// FuzzEngine lets the fuzzer choose the seed of a history.
func FuzzEngine(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		history := randomHistory(rand.New(rand.NewPCG(a, b)))
		sum := nook.Sparks(0)
		for _, w := range oracle(history) {
			sum += nook.Sparks(w.sparks)
		}
		if got := fold(history...).Sparks().Total(); got != sum {
			t.Fatalf("%s, want %s", got, sum)
		}
	})
}

func TestFormulaAgreesWithDecimals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		tokens, units := r.Int64N(1+int64(1)<<r.IntN(40)), r.IntN(1+1<<r.IntN(10))
		if got, want := nook.Raw(tokens, units), decimalRaw(tokens, units); int64(got) != want {
			t.Fatalf("%d tokens, %d units: %d, want %d", tokens, units, got, want)
		}
	}
}

// TestFormulaBetweenTwoMicroSparks looks for amounts that float64 cannot round, because they are too near to the middle.
func TestFormulaBetweenTwoMicroSparks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	near, wrong := 0, 0
	for range 2_000_000 {
		tokens, units := r.Int64N(nook.MaxTokens), 1+r.IntN(1000)
		plain := math.Sqrt(float64(tokens)*1e9) * math.Log(float64(units+1))
		if math.Abs(plain-math.Floor(plain)-0.5) > plain*0x1p-51 {
			continue
		}
		near++
		want := decimalRaw(tokens, units)
		if int64(math.Round(plain)) != want {
			wrong++
		}
		if got := nook.Raw(tokens, units); int64(got) != want {
			t.Errorf("%d tokens, %d units: %d, want %d", tokens, units, got, want)
		}
	}
	if t.Logf("%d amounts near the middle, %d of them wrong in float64", near, wrong); wrong == 0 {
		t.Error("no amount was near enough to prove anything")
	}
}
