package guild

import "fmt"

// Criticality is the importance of a job. It determines how many providers do the job at the same time, and how many
// of their deliveries must agree (the partnership protocol, section 4.1.3).
type Criticality string

// Levels of criticality. "" means Low.
const (
	Low      Criticality = "low"      // one provider
	Medium   Criticality = "medium"   // two at once, the first accepted delivery wins
	High     Criticality = "high"     // three, two of which must agree
	Critical Criticality = "critical" // five, three of which must agree
)

// ParseCriticality parses a level; "" is Low.
func ParseCriticality(s string) (Criticality, error) {
	switch c := Criticality(s); c {
	case "":
		return Low, nil
	case Low, Medium, High, Critical:
		return c, nil
	}
	return "", fmt.Errorf("criticality %.40q: want low, medium, high or critical", s)
}

// Replicas returns how many providers are asked at the same time.
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

// Quorum returns how many accepted deliveries must agree before the job is accepted.
func (c Criticality) Quorum() int {
	switch c {
	case High:
		return 2
	case Critical:
		return 3
	}
	return 1
}

// Classes of tasks, from which trust learns at different rates (the partnership protocol, section 5.2.3).
const (
	ClassBenchmark    = "benchmark" // all benchmarks; customers cannot name it
	ClassCriticalPath = "critical-path"
	ClassExperimental = "experimental"
	ClassBackground   = "background"
	ClassFinancial    = "financial"
)

// Classes returns the classes that a customer can name. For a job without a class, trust learns at the normal rate.
func Classes() []string {
	return []string{ClassCriticalPath, ClassExperimental, ClassBackground, ClassFinancial}
}
