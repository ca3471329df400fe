package work

import (
	"fmt"
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
	taken, refused, err := takeLessons(dir, strings.ToUpper)
	if want := []Lesson{{"lessons/a.md", "ONE"}, {"lessons/b.md", "TWO"}}; err != nil || !slices.Equal(taken, want) || len(refused) != 0 {
		t.Fatalf("got %q, %v, %v, want %q", taken, refused, err, want)
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
	taken, refused, err := takeLessons(dir, strings.ToUpper)
	if err != nil || !slices.Equal(taken, []Lesson{{"lessons/a.md", "ONE"}}) {
		t.Fatalf("got %q, %v", taken, err)
	}
	for i, name := range []string{"large.md", "link.md", "pipe.md"} {
		if len(refused) != 3 || !strings.HasPrefix(refused[i].Error(), `"lessons/`+name+`" `) {
			t.Errorf("refused %v, want %s named", refused, name)
		}
	}
	if got, want := leftLessons(dir), []string{"index.html", "large.md", "link.md", "pipe.md"}; !slices.Equal(got, want) {
		t.Errorf("%q is left, want %q", got, want)
	}
}

func TestLessonsBeyondTheLimitAreNamed(t *testing.T) {
	files := map[string]string{}
	for i := range maxLessons + 2 {
		files[fmt.Sprintf("lessons/%c.md", 'a'+i)] = "x"
	}
	dir := lessonFiles(t, files)
	taken, refused, err := takeLessons(dir, strings.ToUpper)
	if err != nil || len(taken) != maxLessons || len(refused) != 1 || !strings.Contains(refused[0].Error(), "lessons/i.md") {
		t.Errorf("took %d and refused %v, %v", len(taken), refused, err)
	}
	if got := leftLessons(dir); !slices.Equal(got, []string{"i.md", "j.md"}) {
		t.Errorf("%q is left", got)
	}
}
