package work

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
)

// Limits of the lessons of one request.
const (
	lessonsDir = "lessons"
	maxLessons = 8
	maxLesson  = 8 << 10 // bytes
)

// takeLessons removes lessons/*.md from a worker's directory and returns their texts, without secrets. Files that are too
// large, links, and more than maxLessons are left out. The directory is never delivered.
func takeLessons(delivery string, hide func(string) string) (texts []string, err error) {
	root, err := os.OpenRoot(delivery)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := fs.Glob(root.FS(), path.Join(lessonsDir, "*.md"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := readLesson(root, name)
		if err == nil && len(texts) < maxLessons {
			texts = append(texts, hide(text))
		}
	}
	if err := root.RemoveAll(lessonsDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return texts, nil
}

var errLesson = errors.New("not a small file")

func readLesson(root *os.Root, name string) (string, error) {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() > maxLesson {
		return "", errors.Join(errLesson, err)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLesson))
	return string(b), err
}
