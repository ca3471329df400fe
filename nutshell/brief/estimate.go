package brief

import (
	"container/heap"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"guild/nutshell"
)

// Bounds of an estimate. So many bytes of so many files are counted, and the others like them: it takes a tenth of a second
// at most, however large the bundle is, and is exact for a bundle of a few small files.
const (
	sampled      = 512 << 10 // bytes of all files together
	sampledFiles = 256
	manifestHead = 64 << 10 // bytes of the manifest
)

// Estimator estimates how many tokens the text of a bundle takes while nutshell.Pack reads it: the manifest and all files
// that Layers could show, whatever the budget. The estimate does not depend on the order in which the files are read.
type Estimator struct {
	m *nutshell.Manifest

	mu    sync.Mutex // guards what follows
	kept  samples
	files int   // of text
	bytes int64 // in them
}

// NewEstimator returns an estimator for a bundle with this manifest.
func NewEstimator(m *nutshell.Manifest) *Estimator { return &Estimator{m: m} }

// Head takes the first bytes of a file, as nutshell.Options.Head does.
func (e *Estimator) Head(name string, size int64, head []byte) {
	hidden := slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return strings.HasPrefix(part, ".") })
	if hidden || e.m.HoldsCredentials(name) || path.Clean(name) == nutshell.HiddenDir {
		return
	}
	text, err := textOf(head, int64(len(head)) < size)
	if err != nil {
		return
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.files++
	e.bytes += size
	heap.Push(&e.kept, kept{order: h.Sum64(), name: name, size: size, head: slices.Clone(text[:min(len(text), e.each())])})
	if len(e.kept) > sampledFiles {
		heap.Pop(&e.kept)
	}
	if e.files <= sampledFiles {
		for i := range e.kept {
			e.kept[i].head = e.kept[i].head[:min(len(e.kept[i].head), e.each())]
		}
	}
}

// each returns how many bytes of each file are counted.
func (e *Estimator) each() int { return min(sampled/min(e.files, sampledFiles), nutshell.HeadSize) }

// Tokens returns the estimate. It counts on all processors.
func (e *Estimator) Tokens() (int64, error) {
	text, err := compact(e.m)
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	count := NewCounter()
	var counting errgroup.Group
	counting.SetLimit(runtime.GOMAXPROCS(0))
	tokens := make([]int64, len(e.kept)) // of each file that is kept
	var bytes, all int64                 // of the files that are kept
	for i, f := range e.kept {
		bytes += f.size
		counting.Go(func() (err error) {
			if tokens[i], err = count.begin(f.head, f.size); err != nil {
				err = fmt.Errorf("%.200q: %w", f.name, err)
			}
			return err
		})
	}
	manifest, err := count.begin([]byte(text[:min(len(text), manifestHead)]), int64(len(text)))
	if err := errors.Join(counting.Wait(), err); err != nil {
		return 0, err
	}
	for _, n := range tokens {
		all += n
	}
	return manifest + inProportion(all, bytes, e.bytes), nil
}

// begin estimates the tokens of a text of so many bytes by those of its beginning.
func (c *Counter) begin(head []byte, size int64) (int64, error) {
	head = wholeRunes(head)
	n, err := c.Count(string(head))
	return inProportion(n, int64(len(head)), size), err
}

// kept is a file whose beginning is counted.
type kept struct {
	order uint64 // by the hash of its name; the first ones are kept
	name  string
	size  int64
	head  []byte
}

// samples is a heap of files with the last one on top.
type samples []kept

func (s samples) Len() int           { return len(s) }
func (s samples) Less(i, j int) bool { return s[i].order > s[j].order }
func (s samples) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *samples) Push(x any)        { *s = append(*s, x.(kept)) }
func (s *samples) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// textOf returns the text in the first bytes of a file, up to a whole character if more follow.
func textOf(b []byte, more bool) ([]byte, error) {
	if more {
		b = wholeRunes(b)
	}
	return b, checkText(b)
}
