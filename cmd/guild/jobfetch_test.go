package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"guild"
	"guild/internal/control"
	"guild/nutshell"
)

// packedDelivery returns a delivery of files, by their paths below its artifacts, that guild itself would not pack.
func packedDelivery(t *testing.T, artifacts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("NUT\x01")
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	add := func(name, content string) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, content)
	}
	add(nutshell.ManifestFile, `{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-d","task":{"title":"t"}}`)
	add(nutshell.ResultFile, `{"status":"completed"}`)
	for _, name := range artifacts {
		add(nutshell.ArtifactsDir+"/"+name, name)
	}
	for _, err := range []error{w.Close(), zipped.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestFetchLeavesGitOut(t *testing.T) {
	made := fetched{Dir: filepath.Join(t.TempDir(), "work")}
	packed := packedDelivery(t, "a.txt", ".git/config", "sub/.GIT/hooks/pre-commit", "other/.git", "GIT~1/config", ".gitignore", "sub/b.txt",
		"bare/HEAD", "bare/objects/x", "bare/refs/x")
	if err := made.write(t.Context(), packed); err != nil {
		t.Fatal(err)
	}
	if want := []string{".git/config", "sub/.GIT/hooks/pre-commit", "other/.git", "GIT~1/config", "bare/HEAD", "bare/objects/x", "bare/refs/x"}; !slices.Equal(made.LeftOut, want) {
		t.Errorf("left out %q, want %q", made.LeftOut, want)
	}
	var written []string
	for _, f := range made.Files {
		written = append(written, f.Path)
		b, err := os.ReadFile(filepath.Join(made.Dir, f.Path))
		if err != nil || string(b) != f.Path || f.SHA256 != guild.Sum(b).Hex() || f.Size != int64(len(b)) {
			t.Errorf("%s: got %q, %v, want %+v", f.Path, b, err, f)
		}
	}
	if want := []string{"a.txt", ".gitignore", "sub/b.txt"}; !slices.Equal(written, want) {
		t.Errorf("wrote %q, want %q", written, want)
	}
	var there []string
	for _, dir := range []string{".", "sub"} {
		entries, err := os.ReadDir(filepath.Join(made.Dir, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			there = append(there, e.Name())
		}
	}
	if want := []string{".gitignore", "a.txt", "sub", "b.txt"}; !slices.Equal(there, want) {
		t.Errorf("the directory has %q, want %q", there, want)
	}
}

func TestFetchWritesAllOrNothing(t *testing.T) {
	whole := packedDelivery(t, "a.txt", "b.txt")
	for _, c := range []struct {
		name   string
		packed []byte
		want   string
	}{
		{"cut off", whole[:len(whole)-20], "ends too early"},
		{"no files", packedDelivery(t), "no files"},
		{"git alone", packedDelivery(t, ".git/config"), "no files"},
		{"outside", packedDelivery(t, "a.txt", "../../../../evil"), "evil"},
		{"no bundle", []byte("hello"), "not a Nutshell bundle"},
		{"a clash", packedDelivery(t, "a", "a/b"), "a file and a folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.TempDir()
			made := fetched{Dir: filepath.Join(parent, "work")}
			if err := made.write(t.Context(), c.packed); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
			left, err := os.ReadDir(parent)
			if err != nil || len(left) != 0 {
				t.Errorf("got %v, %v, want an empty directory", left, err)
			}
		})
	}
}

func TestDeliveryOf(t *testing.T) {
	attempt := func(id string, state guild.State, delivery string) control.Attempt {
		return control.Attempt{ID: id, State: string(state), Delivery: delivery}
	}
	job := func(ending guild.Ending, chosen string, all ...control.Attempt) control.Job {
		return control.Job{ID: strings.Repeat("5f", 16), Ending: ending, Chosen: chosen, Attempts: all}
	}
	refused, bad := attempt("a1", guild.Refused, ""), attempt("b1", guild.Rejected, "x")
	good, better := attempt("c1", guild.Accepted, "x"), attempt("c2", guild.Accepted, "y")
	for _, c := range []struct {
		name string
		job  control.Job
		o    fetchOptions
		want string // id, or a part of the error
	}{
		{"accepted", job(guild.JobAccepted, "", refused, bad, good), fetchOptions{}, "c1"},
		{"first accepted", job(guild.JobAccepted, "", good, better), fetchOptions{}, "c1"},
		{"chosen", job(guild.JobAccepted, "c2", good, better), fetchOptions{}, "c2"},
		{"chosen and judged again", job(guild.JobAccepted, "b1", bad), fetchOptions{}, "is rejected"},
		{"named", job(guild.JobAccepted, "c2", good, better), fetchOptions{Attempt: "C1"}, "c1"},
		{"ambiguous", job(guild.JobAccepted, "c2", good, better), fetchOptions{Attempt: "c"}, "2 attempts begin with c"},
		{"named rejected", job(guild.JobAccepted, "", bad, good), fetchOptions{Attempt: "b"}, "attempt b1"},
		{"named and wanted", job(guild.JobAccepted, "", bad, good), fetchOptions{Attempt: "b", Rejected: true}, "b1"},
		{"accepted is preferred", job(guild.JobAccepted, "", good, bad), fetchOptions{Rejected: true}, "c1"},
		{"rejected", job(guild.JobRejected, "", refused, bad), fetchOptions{}, "is rejected"},
		{"rejected and wanted", job(guild.JobRejected, "", refused, bad), fetchOptions{Rejected: true}, "b1"},
		{"disagreed", job(guild.JobDisagreed, "", good, better), fetchOptions{}, "is accepted, and the job disagreed"},
		{"disagreed and wanted", job(guild.JobDisagreed, "", good, better), fetchOptions{Rejected: true}, "c2"},
		{"no delivery", job(guild.JobUnclaimed, "", refused), fetchOptions{Rejected: true}, "nothing was delivered"},
		{"no such attempt", job(guild.JobAccepted, "", good), fetchOptions{Attempt: "d"}, "no delivery of an attempt d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := deliveryOf(c.job, c.o)
			if err == nil && got.ID != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v, want %q", got.ID, err, c.want)
			}
		})
	}
}
