package metric_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"guild/internal/metric"
)

func TestCounter(t *testing.T) {
	var r metric.Registry
	c := r.Counter(metric.Info{Name: "events.dropped", Unit: "events", Label: "reason"})
	if got := c.Values(); got == nil || len(got) != 0 {
		t.Errorf("a new counter has %v, want an empty map", got)
	}
	var adders sync.WaitGroup
	for range 10 {
		adders.Go(func() { c.Add("late", 2) })
	}
	adders.Wait()
	c.Add("forged", 1)
	c.Values()["forged"] = 100 // changes only the caller's map
	if got, want := c.Values(), (map[string]int64{"late": 20, "forged": 1}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDuplicateName(t *testing.T) {
	var r metric.Registry
	r.Counter(metric.Info{Name: "jobs"})
	defer func() {
		if got, want := fmt.Sprint(recover()), "metric: duplicate name jobs"; got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	r.Gauge(metric.Info{Name: "jobs"}, nil)
}

func Example() {
	var r metric.Registry
	dropped := r.Counter(metric.Info{Name: "events.dropped", Unit: "events", Help: "Events that changed nothing.", Label: "reason"})
	r.Gauge(metric.Info{Name: "providers", Unit: "services", Help: "Services that others announce."}, func() map[string]int64 {
		return map[string]int64{"": 7}
	})
	dropped.Add("late", 1)
	for _, m := range r.All() {
		fmt.Println(m.Name, m.Values(), m.Unit)
	}
	// Output:
	// events.dropped map[late:1] events
	// providers map[:7] services
}
