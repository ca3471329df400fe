package guild

import "fmt"

// Micro is 1 in the unit of Trust and Score. Both are integers, because floating-point multiply-add differs between
// machines, and a journal must replay to the same state everywhere.
const Micro = 1_000_000

// Trust is the trust in a service for a task, from 0 to Micro. It is kept per (task, pubkey, d) and changed only by
// verdicts (the partnership protocol, chapter 5).
type Trust int64

// String returns trust in decimal form, such as "0.75".
func (t Trust) String() string { return fmt.Sprintf("%.2f", t.Float()) }

// Float returns trust as a fraction of 1, for formulas and for wire formats with floats.
func (t Trust) Float() float64 { return float64(t) / Micro }

// Score is the quality of one delivery, from 0 to Micro (the partnership protocol, section 3.2.1). It belongs to one
// verdict; Trust accumulates verdicts.
type Score int64

// String returns the score in decimal form, such as "0.97".
func (s Score) String() string { return fmt.Sprintf("%.2f", s.Float()) }

// Float returns the score as a fraction of 1.
func (s Score) Float() float64 { return float64(s) / Micro }
