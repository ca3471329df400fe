package work

import (
	"fmt"
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

// Lesson is a lesson that a worker proposes.
type Lesson struct {
	File string // name in the worker's directory
	Text string
}

// takeLessons takes lessons/*.md out of a worker's directory and returns them, without secrets. What is no lesson stays a part
// of the delivery: other names, and the refused files, which are too large, links, or beyond maxLessons.
func takeLessons(delivery string, hide func(string) string) (taken []Lesson, refused []error, err error) {
	root, err := os.OpenRoot(delivery)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	if info, err := root.Lstat(lessonsDir); err != nil || !info.IsDir() {
		return nil, nil, nil
	}
	names, err := fs.Glob(root.FS(), path.Join(lessonsDir, "*.md"))
	if err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		if len(taken) == maxLessons {
			refused = append(refused, fmt.Errorf("%.200q and what follows: at most %d lessons of one request", names[i], maxLessons))
			break
		}
		text, err := ReadLesson(root, name)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		if err := root.Remove(name); err != nil {
			return nil, nil, err
		}
		taken = append(taken, Lesson{name, hide(text)})
	}
	_ = root.Remove(lessonsDir) // which fails unless it is empty
	return taken, refused, nil
}

// ReadLesson reads a lesson from the directory of a command. It opens no link and nothing that could block, such as a pipe.
func ReadLesson(root *os.Root, name string) (string, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxLesson {
		return "", fmt.Errorf("%.200q is no file of up to %d bytes", name, maxLesson)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLesson))
	return string(b), err
}
