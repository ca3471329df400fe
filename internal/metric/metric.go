// Package metric counts what a program does. A registry holds every counter and gauge with its name, unit and help, so
// that code that shows or exports them finds them in one place. It keeps numbers in memory only.
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
	Name  string // as "events.dropped"; unique in the registry
	Unit  string // as "events" or "ms"
	Help  string // one sentence for people
	Label string // name of the values' label, as "reason"; "" for a metric with one value
}

// Metric is a counter or a gauge. Each value has a label, which is "" if Info has no label.
type Metric struct {
	Info
	Counts bool // it is a counter: it only grows, from 0 at the start of the program

	read   func() map[string]int64 // nil for a metric that Add changes
	mu     sync.Mutex
	values map[string]int64
}

// Counter adds a metric that Add changes.
func (r *Registry) Counter(i Info) *Metric {
	return r.add(&Metric{Info: i, Counts: true, values: map[string]int64{}})
}

// Gauge adds a metric that is read on request. Every call of read must return a new map.
func (r *Registry) Gauge(i Info, read func() map[string]int64) *Metric {
	return r.add(&Metric{Info: i, read: read})
}

// add adds a metric. A duplicate name is a programming error, so it panics.
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

// Add adds n to the value of a label. It may be called only for counters.
func (m *Metric) Add(label string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[label] += n
}

// Values returns the values by label. The caller owns the map.
func (m *Metric) Values() map[string]int64 {
	if m.read != nil {
		return m.read()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.values)
}
