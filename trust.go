package guild

import "fmt"

// Micro is one, in the micro-units that Trust and Score count in. They are integers because floating
// multiply-add differs between machines, and a journal must replay to the same state everywhere.
const Micro = 1_000_000

// Trust says how far a service is trusted with a task, from 0 to Micro. It is kept per (task, pubkey, d)
// and moved only by verdicts (the partnership protocol, chapter 5).
type Trust int64

// String returns trust as a person reads it, as "0.75".
func (t Trust) String() string { return fmt.Sprintf("%.2f", t.Float()) }

// Float returns trust as a fraction of one, for the formulas and for wire formats that want it so.
func (t Trust) Float() float64 { return float64(t) / Micro }

// Score is how good one delivery was, from 0 to Micro (the partnership protocol, section 3.2.1). It belongs to
// one verdict; Trust is what the verdicts add up to.
type Score int64

// String returns the score as a person reads it, as "0.97".
func (s Score) String() string { return fmt.Sprintf("%.2f", s.Float()) }

// Float returns the score as a fraction of one.
func (s Score) Float() float64 { return float64(s) / Micro }
