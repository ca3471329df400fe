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

// takeLessons takes lessons/*.md out of a worker's directory and returns their texts, without secrets. What is no lesson stays
// a part of the delivery: other names, files that are too large, links, and all beyond maxLessons.
func takeLessons(delivery string, hide func(string) string) (texts []string, err error) {
	root, err := os.OpenRoot(delivery)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if info, err := root.Lstat(lessonsDir); err != nil || !info.IsDir() {
		return nil, nil
	}
	names, err := fs.Glob(root.FS(), path.Join(lessonsDir, "*.md"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if len(texts) == maxLessons {
			break
		}
		text, err := ReadLesson(root, name)
		if err != nil {
			continue
		}
		if err := root.Remove(name); err != nil {
			return nil, err
		}
		texts = append(texts, hide(text))
	}
	_ = root.Remove(lessonsDir) // which fails unless it is empty
	return texts, nil
}

// ReadLesson reads a lesson from the directory of a command. It opens no link and nothing that could block, such as a pipe.
func ReadLesson(root *os.Root, name string) (string, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxLesson {
		return "", fmt.Errorf("%s is no file of up to %d bytes", name, maxLesson)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLesson))
	return string(b), err
}
