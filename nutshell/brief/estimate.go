package brief

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Up to exactly bytes of text are counted completely. Of more text, the same share of every file is counted.
const (
	exactly     = 2 << 20
	leastSample = 512
)

// Estimate returns how many tokens the text in a bundle takes, for compression.context_tokens_estimate: the
// manifest and all files that Layers could show, whatever the budget. It is exact up to 2 MiB, and takes no longer
// for more. Its errors are those of Layers.
func Estimate(ctx context.Context, fsys fs.FS) (int64, error) {
	m, err := readManifest(fsys)
	if err != nil {
		return 0, err
	}
	count := NewCounter()
	files, err := plan(ctx, fsys, m, nil)
	if err != nil {
		return 0, err
	}
	share, err := evenShare(fsys, files)
	if err != nil {
		return 0, err
	}
	text, err := compact(m)
	if err != nil {
		return 0, err
	}
	total, read, err := count.countUpTo(text, exactly)
	if err != nil {
		return 0, err
	}
	total = inProportion(total, int64(read), int64(len(text)))
	for _, c := range files {
		if c.reason != "" {
			continue
		}
		n, err := estimate(ctx, fsys, c.path, share, count)
		if err != nil {
			return 0, fmt.Errorf("%.200q: %w", c.path, err)
		}
		total += n
	}
	return total, nil
}

// evenShare returns the share of every file that is counted.
func evenShare(fsys fs.FS, files []candidate) (float64, error) {
	total := int64(0)
	for _, c := range files {
		if c.reason != "" {
			continue
		}
		info, err := fs.Stat(fsys, c.path)
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	if total <= exactly {
		return 1, nil
	}
	return exactly / float64(total), nil
}

// estimate counts a share of a file.
func estimate(ctx context.Context, fsys fs.FS, p string, share float64, count *Counter) (int64, error) {
	f, size, err := open(fsys, p)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b, err := readText(ctx, f, max(int64(share*float64(size)), leastSample))
	if _, ok := errors.AsType[*notText](err); ok {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := count.Count(string(b))
	return inProportion(n, int64(len(b)), size), err
}
