package analysis

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/durable"
	"guild/internal/judging/sandbox"
)

// keptInside is the directory of the cache in a run.
const keptInside = sandbox.Judge + "/kept"

// maxKept limits the size of the cache, in bytes.
const maxKept = 32 << 20

// kept returns the directory of mypy's cache of the standard library, which takes a second to create. The cache is
// created in a run without a delivery, and runs with one get a read-only copy. So no delivery can change it.
func (a *Analyst) kept() string { return filepath.Join(a.Cache, "mypy") }

func (a *Analyst) keptFile() string { return filepath.Join(a.kept(), "cache") }

// useCache tells mypy where its cache is, and first creates it if there is none. Without a cache mypy gives the same
// results, slowly.
func (a *Analyst) useCache(ctx context.Context, j *job) {
	if a.Cache == "" {
		return
	}
	a.learning.Lock()
	defer a.learning.Unlock()
	if _, err := os.Lstat(a.keptFile()); err != nil && !a.gaveUp {
		a.gaveUp = !errors.Is(err, fs.ErrNotExist) || a.learn(ctx, *j) != nil && ctx.Err() == nil
	}
	if _, err := os.Lstat(a.keptFile()); err != nil {
		return
	}
	j.order.Kept = keptInside + "/cache"
}

// learn lets mypy create the cache.
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

// dropCache removes a cache that has become invalid, so that the next analysis creates a new one.
func (a *Analyst) dropCache() {
	a.learning.Lock()
	defer a.learning.Unlock()
	_ = os.Remove(a.keptFile()) // if it stays, mypy is slow
}
