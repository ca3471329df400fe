package work

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lessonFiles writes files below a new directory.
func lessonFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// leftLessons lists the names in lessons/, nil if it is not there.
func leftLessons(dir string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(dir, lessonsDir))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestLessonsAreTakenOutOfDelivery(t *testing.T) {
	dir := lessonFiles(t, map[string]string{"lessons/a.md": "one", "lessons/b.md": "two", "out": "x"})
	texts, err := takeLessons(dir, strings.ToUpper)
	if want := []string{"ONE", "TWO"}; err != nil || !slices.Equal(texts, want) {
		t.Fatalf("got %q, %v, want %q", texts, err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, lessonsDir)); err == nil {
		t.Error("an empty directory is delivered")
	}
}

func TestWhatIsNoLessonIsDelivered(t *testing.T) {
	dir := lessonFiles(t, map[string]string{"lessons/a.md": "one", "lessons/index.html": "<p>", "lessons/large.md": strings.Repeat("x", maxLesson+1)})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "lessons/link.md")); err != nil {
		t.Fatal(err)
	}
	if err := exec.CommandContext(t.Context(), "mkfifo", filepath.Join(dir, "lessons/pipe.md")).Run(); err != nil {
		t.Fatal(err)
	}
	texts, err := takeLessons(dir, strings.ToUpper)
	if err != nil || !slices.Equal(texts, []string{"ONE"}) {
		t.Fatalf("got %q, %v", texts, err)
	}
	if got, want := leftLessons(dir), []string{"index.html", "large.md", "link.md", "pipe.md"}; !slices.Equal(got, want) {
		t.Errorf("%q is left, want %q", got, want)
	}
}
