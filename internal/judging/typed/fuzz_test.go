package typed

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"guild/internal/judging/opinion"
	"guild/internal/judging/sandbox"
	"guild/oa"
)

func FuzzUntar(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	w.WriteHeader(&tar.Header{Name: "d/f", Mode: 0o755, Size: 1})
	w.Write([]byte("x"))
	w.WriteHeader(&tar.Header{Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"})
	w.WriteHeader(&tar.Header{Name: "../up", Size: 1})
	w.Close()
	f.Add(b.Bytes())
	f.Add([]byte("\x1f\x8b"))
	f.Add([]byte("NUT\x01"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		dir := t.TempDir()
		s := Sandbox{Most: sandbox.Limits{Disk: 1 << 20, Inodes: 100}, Fetch: func(_ context.Context, _ string, w io.Writer) (int64, error) {
			n, err := w.Write(archive)
			return int64(n), err
		}}
		s.fill(t.Context(), "https://example.com/x", filepath.Join(dir, "files"))
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 1 {
			t.Errorf("%v %v", left, err)
		}
		filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() && !d.Type().IsRegular() {
				t.Errorf("%s: %v %v", name, d, err)
			}
			return nil
		})
	})
}

// answers is an endpoint that always gives the same answer.
type answers []byte

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(a)), Request: r}, nil
}

func FuzzEndpoint(f *testing.F) {
	f.Add([]byte(`{"data": [{"index": 0, "embedding": [1, 2]}]}`))
	f.Add([]byte(`{"choices": [{"message": {"content": "{\"topk\": [{\"rank\": 1, \"id\": \"a\", \"score\": 1}]}"}}]}`))
	f.Fuzz(func(t *testing.T, response []byte) {
		m := Model{Endpoint: opinion.Endpoint{URL: "https://host/v1", Client: &http.Client{Transport: answers(response)}}, Name: "m"}
		vectors, err := oa.NewEnvelope(oa.EmbeddingRequest{Texts: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		ranking, err := oa.NewEnvelope(oa.RerankRequest{UserTask: "x", Candidates: []oa.Candidate{{ID: "a", Content: "x"}}})
		if err != nil {
			t.Fatal(err)
		}
		m.Do(t.Context(), vectors)
		if raw, err := m.Do(t.Context(), ranking); err == nil {
			if err := oa.Known().CheckResult(ranking.JobType, ranking.Payload, raw); err != nil {
				t.Errorf("%s: %v", raw, err)
			}
		}
	})
}
