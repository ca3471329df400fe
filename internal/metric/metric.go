// Package metric counts what a program does. A registry holds every counter and gauge with its name, unit and help, so that
// whoever shows or exports them finds them in one place. It keeps numbers in memory only, and writes them nowhere.
package metric

import (
	"maps"
	"sync"
)

// Registry is a set of metrics. The zero value is empty and ready for use.
type Registry struct {
	mu  sync.Mutex
	all []*Metric // in the order in which they were added
}

// Info describes a metric.
type Info struct {
	Name  string // as "events.dropped"; no other metric of the registry has it
	Unit  string // what one of it is, as "events" or "ms"
	Help  string // one sentence for people
	Label string // what its values are told apart by, as "reason"; "" for a metric with one value
}

// Metric is a counter or a gauge. Its values have a label each, which is "" if Info has no label.
type Metric struct {
	Info
	Counts bool // only grows, from 0 at the start of the program; otherwise it is a gauge

	read   func() map[string]int64 // nil for a metric that Add changes
	mu     sync.Mutex
	values map[string]int64
}

// Counter adds a metric that Add changes.
func (r *Registry) Counter(i Info) *Metric {
	return r.add(&Metric{Info: i, Counts: true, values: map[string]int64{}})
}

// Gauge adds a metric that is read when somebody asks for it. Every call of read returns a new map.
func (r *Registry) Gauge(i Info, read func() map[string]int64) *Metric {
	return r.add(&Metric{Info: i, read: read})
}

// add adds a metric. Two of one name are a mistake of the program, so it panics.
func (r *Registry) add(m *Metric) *Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.all {
		if other.Name == m.Name {
			panic("metric: duplicate name " + m.Name)
		}
	}
	r.all = append(r.all, m)
	return m
}

// All returns the metrics, in the order in which they were added.
func (r *Registry) All() []*Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[:len(r.all):len(r.all)]
}

// Add adds n to the value of a label. It is for counters only.
func (m *Metric) Add(label string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[label] += n
}

// Values returns the values by label. The map is the caller's.
func (m *Metric) Values() map[string]int64 {
	if m.read != nil {
		return m.read()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.values)
}
