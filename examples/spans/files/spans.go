// Package spans does set arithmetic on half-open intervals of whole numbers.
package spans

// Span holds every n with From <= n < To.
type Span struct{ From, To int64 }

// Merge returns the numbers in spans as few spans as can be, in ascending order.
func Merge(spans []Span) []Span { panic("to be written") }

// Subtract returns the numbers in spans that are not in holes, in the form that Merge returns.
func Subtract(spans, holes []Span) []Span { panic("to be written") }

// Total counts the numbers that at least one span holds.
func Total(spans []Span) int64 { panic("to be written") }
