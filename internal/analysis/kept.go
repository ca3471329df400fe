package analysis

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/durable"
	"guild/internal/sandbox"
)

// keptInside is where a run finds what is kept for it.
const keptInside = sandbox.Judge + "/kept"

// maxKept is the most that is kept, in bytes.
const maxKept = 32 << 20

// kept is the directory with what mypy knows of the library, which takes it a second to read. It comes from a run
// without any delivery, and a run with one sees a read-only copy: nobody can put words into it.
func (a *Analyst) kept() string { return filepath.Join(a.Cache, "mypy") }

func (a *Analyst) keptFile() string { return filepath.Join(a.kept(), "cache") }

// remind tells mypy where to find what it knows, and lets it learn that first if nothing is kept. Without it, mypy
// is slow and does all the same.
func (a *Analyst) remind(ctx context.Context, j *job) {
	if a.Cache == "" {
		return
	}
	a.learning.Lock()
	defer a.learning.Unlock()
	if _, err := os.Lstat(a.keptFile()); err != nil && !a.dull {
		a.dull = !errors.Is(err, fs.ErrNotExist) || a.learn(ctx, *j) != nil && ctx.Err() == nil
	}
	if _, err := os.Lstat(a.keptFile()); err != nil {
		return
	}
	j.order.Kept = keptInside + "/cache"
}

// learn fills the directory.
func (a *Analyst) learn(ctx context.Context, j job) error {
	j.order = order{Learn: true}
	spec := a.spec(j)
	spec.Limits.Output = maxKept
	raw, _, failed := a.run(ctx, spec, j.order)
	if failed != "" || len(raw) >= maxKept {
		return errors.New(failed)
	}
	if err := os.MkdirAll(a.kept(), 0o700); err != nil {
		return err
	}
	return durable.WriteBytes(a.keptFile(), raw)
}

// forget drops what is of no use any more, so that the next analysis learns it anew.
func (a *Analyst) forget() {
	a.learning.Lock()
	defer a.learning.Unlock()
	_ = os.Remove(a.keptFile()) // if it stays, mypy is slow and does all the same
}
