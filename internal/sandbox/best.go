package sandbox

import "context"

// Best returns the strongest runner that works on this machine and what it can do, or an *UnusableError.
func Best(ctx context.Context) (Runner, Caps, error) {
	var last Caps
	for _, r := range candidates() {
		last = r.Probe(ctx)
		if last.Usable {
			return r, last, nil
		}
	}
	return nil, last, &UnusableError{last.Reason, last.Remedy}
}

// candidates are the runners there are, the strongest first.
func candidates() []Runner { return []Runner{Bubblewrap{}} }
