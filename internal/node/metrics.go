package node

import (
	"cmp"

	"guild/internal/metric"
)

// metrics holds the metrics of a node. The registry has them with their names, units and help; Status reports them.
type metrics struct {
	registry metric.Registry

	dropped     *metric.Metric
	jobs        *metric.Metric
	providers   *metric.Metric
	entries     *metric.Metric
	relayEvents *metric.Metric
}

// newMetrics defines all metrics of a node.
func newMetrics(n *Node) *metrics {
	m := new(metrics)
	m.dropped = m.registry.Counter(metric.Info{
		Name: "events.dropped", Unit: "events", Label: "reason",
		Help: "Events from relays that changed nothing since the start.",
	})
	m.jobs = m.registry.Gauge(metric.Info{
		Name: "jobs", Unit: "jobs", Label: "ending",
		Help: "Jobs of this node as a customer, by how they ended.",
	}, func() map[string]int64 {
		endings := map[string]int64{}
		for _, j := range n.folds.jobs.All() {
			endings[cmp.Or(string(j.Ending), "open")]++
		}
		return endings
	})
	m.providers = m.registry.Gauge(metric.Info{
		Name: "providers", Unit: "services",
		Help: "Services of others whose announcement is known.",
	}, func() map[string]int64 { return map[string]int64{"": int64(n.registry.Len())} })
	m.entries = m.registry.Gauge(metric.Info{
		Name: "journal.entries", Unit: "entries",
		Help: "Entries of the journal.",
	}, func() map[string]int64 { return map[string]int64{"": int64(n.journal.Last())} })
	m.relayEvents = m.registry.Gauge(metric.Info{
		Name: "relay.events", Unit: "events", Label: "relay",
		Help: "Events that each relay sent since the start.",
	}, func() map[string]int64 {
		events := map[string]int64{}
		for _, r := range n.pool.Status() {
			events[r.URL] = int64(r.Events)
		}
		return events
	})
	return m
}
