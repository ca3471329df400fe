package guild

import "fmt"

// Criticality says how much depends on a job: how many providers do it at the same time, and how many of their
// deliveries must agree (the partnership protocol, section 4.1.3).
type Criticality string

// The levels. The empty one is Low.
const (
	Low      Criticality = "low"      // one provider
	Medium   Criticality = "medium"   // two at once, the first accepted delivery wins
	High     Criticality = "high"     // three, two of which must agree
	Critical Criticality = "critical" // five, three of which must agree
)

// ParseCriticality reads a level; the empty text is Low.
func ParseCriticality(s string) (Criticality, error) {
	switch c := Criticality(s); c {
	case "":
		return Low, nil
	case Low, Medium, High, Critical:
		return c, nil
	}
	return "", fmt.Errorf("criticality %.40q: want low, medium, high or critical", s)
}

// Replicas is how many providers are asked at the same time.
func (c Criticality) Replicas() int {
	switch c {
	case Medium:
		return 2
	case High:
		return 3
	case Critical:
		return 5
	}
	return 1
}

// Quorum is how many accepted deliveries must agree before the job is accepted.
func (c Criticality) Quorum() int {
	switch c {
	case High:
		return 2
	case Critical:
		return 3
	}
	return 1
}

// The classes of tasks that trust learns differently from (the partnership protocol, section 5.2.3).
const (
	ClassBenchmark    = "benchmark" // that of every benchmark, which no customer names
	ClassCriticalPath = "critical-path"
	ClassExperimental = "experimental"
	ClassBackground   = "background"
	ClassFinancial    = "financial"
)

// Classes are the classes that a customer may name. A job of no class counts as it is.
func Classes() []string {
	return []string{ClassCriticalPath, ClassExperimental, ClassBackground, ClassFinancial}
}
