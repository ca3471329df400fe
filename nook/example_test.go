package nook_test

import (
	"fmt"
	"slices"

	"guild/nook"
)

func Example() {
	const now = 1_764_201_600_000 // when the event arrives
	e, err := nook.Parse([]byte(`{"type":"agent.completed","agentId":"agent-1","workUnitId":"issue-123","tokens":5000}`))
	if err != nil {
		panic(err)
	}
	if e, err = e.Received(now); err != nil {
		panic(err)
	}
	history := []nook.Recorded{{Event: e, Arrived: now}}

	a := nook.New("user-root-id")
	for _, r := range history {
		a.Add(r)
	}
	fmt.Println(a.Sparks().Total(), "sparks")

	for t := range nook.Traces(a.Root(), slices.Values(history)) {
		fmt.Println(t.Tokens, "tokens,", t.Units, "work unit: raw", t.Raw, "rated", t.Rated, "earned", t.Earned)
	}
	p := a.Pulse("agent-1")
	fmt.Println(p.State(now), p.State(now+10_000))
	// Output:
	// 1.549924 sparks
	// 5000 tokens, 1 work unit: raw 1.549924 rated 1.549924 earned 1.549924
	// success idle
}
