package relay

import (
	"fmt"
	"testing"
	"time"
)

func TestQualitiesAreBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	q := qualities{now: func() time.Time { return now }, of: map[string]Quality{}}
	for n := range maxMeasured + 10 {
		now = now.Add(time.Second)
		q.measure(fmt.Sprint(n), (*Quality).lost)
		q.measure("0", (*Quality).lost)
	}
	if len(q.of) != maxMeasured || q.get("0").Samples == 0 || q.get("1").Samples != 0 {
		t.Errorf("%d relays; %+v, %+v", len(q.of), q.get("0"), q.get("1"))
	}
}
