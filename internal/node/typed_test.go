package node

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/control"
	"guild/internal/judging/opinion"
	"guild/internal/judging/typed"
	"guild/oa"
)

// embedder simulates an endpoint whose vectors are computed from the texts and turned by an angle.
func embedder(t *testing.T, turned float64) opinion.Endpoint {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/embeddings" {
			t.Errorf("%s: %v", r.URL, err)
		}
		var data []any
		for i, text := range q.Input {
			angle := float64(len(text)) + turned
			data = append(data, map[string]any{"index": i, "embedding": []float64{math.Cos(angle), math.Sin(angle)}})
		}
		json.NewEncoder(w).Encode(map[string]any{"data": data, "usage": map[string]int{"prompt_tokens": 3}})
	}))
	t.Cleanup(server.Close)
	return opinion.Endpoint{URL: server.URL + "/v1"}
}

// hireTyped hires for a typed job once a provider offers it.
func hireTyped[Q oa.Payload](t *testing.T, c *control.Client, request Q) control.Job {
	t.Helper()
	e, err := oa.NewEnvelope(request)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := typed.Bundle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "somebody offers "+e.JobType.String(), func() bool {
		all, err := control.Providers.Call(t.Context(), c, e.JobType.String())
		return err == nil && len(all) > 0
	})
	return finish(t, c, open(t, c, packed, control.Hire{Task: e.JobType.String()}))
}

func TestEmbeddingsAreRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		turned   float64
		want     guild.Ending
		strength guild.Strength
		failed   string
	}{
		"honest":        {0, guild.JobAccepted, guild.Strong, ""},
		"another's own": {0.1, guild.JobRejected, guild.Weak, "vectors"},
	} {
		t.Run(name, func(t *testing.T) {
			url := startRelay(t)
			start(t, url, func(o *Config) {
				o.Workers = []Worker{{Task: oa.Embedding, Type: oa.Embedding, Model: &typed.Model{Endpoint: embedder(t, c.turned), Name: "m"}, Limit: time.Minute}}
			})
			client, _ := start(t, url, func(o *Config) {
				ours := embedder(t, 0)
				o.Judging.Vectors, o.Examine = &ours, nil
			})
			texts := slices.Repeat([]string{"one", "three"}, 700) // the vectors are too long for an event
			job := hireTyped(t, client, oa.EmbeddingRequest{Texts: texts, ModelHint: "m", Dimensions: 2})
			if job.Ending != c.want || len(job.Attempts) == 0 {
				t.Fatalf("%+v", job)
			}
			v := job.Attempts[0].Verdict
			if v == nil || v.Strength != c.strength || !strings.HasPrefix(v.Cause, c.failed) || (v.Cause == "") != (c.failed == "") {
				t.Errorf("%+v", v)
			}
			result, err := control.TypedResult.Call(t.Context(), client, job.ID)
			if (err == nil) != (c.failed == "") || err == nil && !strings.Contains(string(result), `"model_id":"m"`) {
				t.Errorf("%s %v", result, err)
			}
		})
	}
}

func TestSandboxImages(t *testing.T) {
	const image = "sha256:0a"
	url := startRelay(t)
	start(t, url, func(o *Config) {
		o.Images = map[string]string{image: "/"}
		o.Workers = []Worker{{Task: oa.SandboxRun, Type: oa.SandboxRun, Limit: time.Minute}}
	})
	client, _ := start(t, url, func(o *Config) { o.Examine = nil })
	job := hireTyped(t, client, oa.SandboxRequest{Sandbox: oa.Sandbox{ImageDigest: image}, Commands: []oa.Command{{Cmd: "echo x >f"}}})
	v := job.Attempts[0].Verdict
	if job.Ending != guild.JobAccepted || v.Strength != guild.Unverified || len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "not run again") {
		t.Errorf("without the image nothing is verified: %+v", v)
	}
	result, err := control.TypedResult.Call(t.Context(), client, job.ID)
	if err != nil || !strings.Contains(string(result), guild.Sum([]byte("x\n")).Hex()) {
		t.Errorf("%s %v", result, err)
	}
}
