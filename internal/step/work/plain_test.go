package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/nip90"
	"guild/nutshell"
)

// summary returns a service for clients that know no bundles.
func summary(do func(ctx context.Context, a Assignment) error) Service {
	return Service{Task: "oa.summary.v1", Kind: 5050, Do: do}
}

// leaves returns a worker that leaves files.
func leaves(files map[string]string) func(context.Context, Assignment) error {
	return func(_ context.Context, a Assignment) error {
		for name, text := range files {
			file := filepath.Join(a.Delivery, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
				return err
			}
		}
		return nil
	}
}

// plainEvent returns a request of such a client.
func plainEvent(tags ...nostr.Tag) nostr.Event {
	return nostr.Event{Kind: 5050, Content: "Summarize this.\nIn one line.", Tags: append(nostr.Tags{{"p", us.key.Hex()}}, tags...)}
}

// does sends a request of p that must be taken, and returns its id.
func (w *world) does(p person, e nostr.Event) nostr.ID {
	w.Helper()
	id, err := w.says(p, e)
	if err != nil {
		w.Fatal(err)
	}
	w.pass(time.Minute)
	return id
}

// result returns the only result of a request, as p reads it.
func (w *world) result(p person, kind nostr.Kind, id nostr.ID) (nip90.Result, nostr.Event) {
	w.Helper()
	all := w.sent(kind, id)
	if len(all) != 1 {
		w.Fatalf("%d results; told %v", len(all), w.told(p, id))
	}
	r, err := nip90.ParseResult(all[0].Event, p.opener())
	if err != nil {
		w.Fatal(err)
	}
	return r, all[0].Event
}

func TestPlainRequestDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found := map[string]string{}
		w := newWorld(t, summary(func(_ context.Context, a Assignment) error {
			for _, name := range []string{"nutshell.json", "context/requirements.md", "files/params.json", "files/inputs/01.txt", "files/inputs/02.txt", "files/inputs/inputs.json"} {
				b, err := os.ReadFile(filepath.Join(a.Bundle, name))
				if err != nil {
					return err
				}
				found[name] = string(b)
			}
			if a.Inputs != filepath.Join(a.Bundle, "files", "inputs") || a.Job != "mine" {
				t.Errorf("%+v", a)
			}
			return os.WriteFile(filepath.Join(a.Delivery, "answer.md"), []byte("A fox.\n"), 0o644)
		}))
		id := w.does(customer, plainEvent(nostr.Tag{"i", "The quick brown fox", "text"}, nostr.Tag{"i", `{"a":1}`, "json", "spec"},
			nostr.Tag{"param", "model", "small"}, nostr.Tag{"param", "range", "1", "9"}, nostr.Tag{"output", "text/markdown"}, nostr.Tag{"bid", "1000"},
			nostr.Tag{"relays", "wss://theirs.example"}, nostr.Tag{"d", "mine"}))

		m, err := nutshell.ParseManifest([]byte(found["nutshell.json"]))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Validate(); err != nil || m.ID() != "nut-"+id.Hex() || m.BundleType() != nutshell.TypeRequest ||
			m.Task().Title != "Summarize this." || m.Context().Requirements != "context/requirements.md" {
			t.Errorf("%v: %s", err, m.Bytes())
		}
		var origin struct {
			Task     string `json:"task"`
			Request  string `json:"request"`
			Customer string `json:"customer"`
			Output   string `json:"output"`
		}
		if ok, err := m.Extension("guild", &origin); !ok || err != nil || origin.Task != "oa.summary.v1" || origin.Request != id.Hex() ||
			origin.Customer != customer.key.Hex() || origin.Output != "text/markdown" {
			t.Errorf("%+v, %v", origin, err)
		}
		for name, want := range map[string]string{
			"context/requirements.md": "Summarize this.\nIn one line.", "files/inputs/01.txt": "The quick brown fox", "files/inputs/02.txt": `{"a":1}`,
			"files/params.json": "{\n  \"model\": \"small\",\n  \"range\": [\n    \"1\",\n    \"9\"\n  ]\n}\n",
		} {
			if found[name] != want {
				t.Errorf("%s: %q", name, found[name])
			}
		}
		var index []given
		if err := json.Unmarshal([]byte(found["files/inputs/inputs.json"]), &index); err != nil || len(index) != 2 ||
			index[1] != (given{Type: "text", Marker: "spec", File: "02.txt", SHA256: guild.Sum([]byte(`{"a":1}`)), Size: 7}) {
			t.Errorf("%+v, %v", index, err)
		}

		r, e := w.result(customer, 6050, id)
		if r.Content != "A fox.\n" || r.Status != "success" || r.Customer != customer.key || r.Request != id {
			t.Errorf("%+v", r)
		}
		var request nostr.Event
		if err := json.Unmarshal([]byte(r.RequestJSON), &request); err != nil {
			t.Fatal(err)
		}
		if _, err := guild.Verify(request); err != nil || request.ID != id {
			t.Errorf("the request in the result: %v", err)
		}
		if e.Tags.FindWithValue("i", "The quick brown fox") == nil || e.Tags.FindWithValue("i", `{"a":1}`) == nil {
			t.Errorf("the inputs are not repeated: %v", e.Tags)
		}
	})
}

func TestPlainBundleIsDeterministic(t *testing.T) {
	w := newPublic(t, summary(echo))
	r := nip90.Request{Kind: 5050, Content: "x", Inputs: []nip90.Input{{Data: "a", Type: "text"}, {Data: "b", Type: "text", Marker: "m"}}}
	for _, key := range []string{"z", "b", "a", "model"} {
		r.Set(key, "1", "2")
	}
	var packed [2][]byte
	for i := range packed {
		var err error
		packed[i], err = w.wrap(t.Context(), w.Work.services["oa.summary.v1"], fact.RequestReceived{Request: nostr.ID{1}, Task: "t"}, r, nil, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(packed[0], packed[1]) {
		t.Error("two bundles of one request differ")
	}
}

func TestPlainAnswer(t *testing.T) {
	const parcel = "a bundle"
	for name, c := range map[string]struct {
		leaves map[string]string
		want   string
	}{
		"one file":                 {map[string]string{"a.txt": "text"}, "text"},
		"one file, deep":           {map[string]string{"a/b/c.txt": "text"}, "text"},
		"one and how it went":      {map[string]string{"a.txt": "text", "result.json": `{"status":"completed"}`}, "text"},
		"the one called output":    {map[string]string{"a.txt": "no", "output.json": `{"yes":1}`}, `{"yes":1}`},
		"the one called no more":   {map[string]string{"a.txt": "no", "output": "yes"}, "yes"},
		"an empty one":             {map[string]string{"a.txt": ""}, ""},
		"several":                  {map[string]string{"a.txt": "1", "b.txt": "2"}, parcel},
		"several outputs":          {map[string]string{"output.txt": "1", "output.md": "2"}, parcel},
		"an output that is deeper": {map[string]string{"x/output.txt": "1", "b.txt": "2"}, parcel},
		"no text":                  {map[string]string{"a.png": "\x89PNG\xff"}, parcel},
		"zeros":                    {map[string]string{"a.bin": "a\x00b"}, parcel},
		"a long one":               {map[string]string{"a.txt": strings.Repeat("x", maxAnswer+1)}, parcel},
		"how it went, alone":       {map[string]string{"result.json": `{"status":"completed"}`}, parcel},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, summary(leaves(c.leaves)))
				id := w.does(customer, plainEvent())
				r, _ := w.result(customer, 6050, id)
				if _, err := r.Delivery(); c.want == parcel && err != nil || c.want != parcel && r.Content != c.want {
					t.Errorf("%.100q, as a bundle %v", r.Content, err)
				}
				for _, f := range steptest.Facts[fact.RequestFinished](w) {
					if !w.blobs.Has(f.Delivery) || !w.blobs.Has(f.Bundle) {
						t.Error("what was asked and what was delivered is not kept")
					}
				}
			})
		})
	}
}

func TestPlainFailure(t *testing.T) {
	for result, says := range map[string]string{
		`{"status":"failed","summary":"no such model"}`: "the worker says: no such model",
		`{"status":"failed"}`:                           "the worker says that it failed",
		`{"status":"blocked"}`:                          "the worker says that it is blocked",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, summary(leaves(map[string]string{"result.json": result, "output.txt": "half"})))
			id := w.does(customer, plainEvent())
			w.wantError(id, says)
			if len(w.sent(6050, id)) != 0 {
				t.Error("there is a result all the same")
			}
		})
	}
}

// encrypted returns a request of p with encrypted tags, by NIP-44 or another way.
func encrypted(t *testing.T, encrypt func(string) (string, error), outer, inner nostr.Tags) nostr.Event {
	t.Helper()
	text, err := json.Marshal(inner)
	if err != nil {
		t.Fatal(err)
	}
	ciphertext, err := encrypt(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return nostr.Event{Kind: 5050, Content: ciphertext, Tags: append(nostr.Tags{{"p", us.key.Hex()}, {"encrypted"}}, outer...)}
}

// as44 encrypts for us with NIP-44.
func (p person) as44(text string) (string, error) {
	return p.signer.Encrypt(context.Background(), text, us.key)
}

func TestEncryptedPlainRequest(t *testing.T) {
	as04 := func(text string) (string, error) {
		return customer.signer.Nip04Encrypt(context.Background(), text, us.key)
	}
	for name, encrypt := range map[string]func(string) (string, error){"NIP-44": customer.as44, "NIP-04": as04} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const secret = "the fox is in the henhouse"
				w := newWorld(t, summary(func(ctx context.Context, a Assignment) error {
					a.Say("reading: " + secret)
					in, err := os.ReadFile(filepath.Join(a.Inputs, "01.txt"))
					if err != nil {
						return err
					}
					return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), in, 0o644)
				}))
				id := w.does(customer, encrypted(t, encrypt, nil, nostr.Tags{{"i", secret, "text"}, {"param", "model", "small"}}))
				r, e := w.result(customer, 6050, id)
				if r.Content != secret || r.Encrypted != nip90.NIP44 {
					t.Errorf("%+v", r)
				}
				if e.Tags.Find("i") != nil || e.Tags.Find("request") != nil {
					t.Errorf("beside it stands %v", e.Tags)
				}
				for _, p := range append(w.sent(6050, id), w.sent(7000, id)...) {
					if strings.Contains(p.String(), "fox") || !p.Tags.Has("encrypted") {
						t.Errorf("in clear: %s", p)
					}
				}

				failing, err := w.says(customer, encrypted(t, encrypt, nil, nostr.Tags{{"param", "model", "small"}}))
				steptest.WantDrop(t, err, guild.Malformed)
				if told := w.told(customer, failing); len(told) != 1 || told[0].Encrypted == "" || told[0].Status != nip90.Error {
					t.Errorf("a refusal: %+v", told)
				}
			})
		})
	}
}

func TestPlacesOfBid(t *testing.T) {
	inputs := nostr.Tags{{"i", "x", "text"}}
	bid := nostr.Tags{{"bid", "5000"}}
	for name, c := range map[string]struct {
		outer, inner nostr.Tags
		taken        bool
	}{
		"only outside": {bid, inputs, true},
		"only inside":  {nil, slices.Concat(inputs, bid), true},
		"both":         {bid, slices.Concat(inputs, bid), true},
		"nowhere":      {nil, inputs, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := summary(leaves(map[string]string{"out.txt": "done"}))
				s.Terms.MinBid = 5000
				w := newWorld(t, s)
				id, _ := w.says(customer, encrypted(t, customer.as44, c.outer, c.inner))
				w.pass(time.Minute)
				if taken := len(w.sent(6050, id)) == 1; taken != c.taken {
					t.Errorf("taken: %v; told %v", taken, w.told(customer, id))
				}
			})
		})
	}
}

func TestServiceOfRequest(t *testing.T) {
	answers := func(text string) func(context.Context, Assignment) error {
		return leaves(map[string]string{"out": text})
	}
	services := []Service{
		{Task: "b", Kind: 5050, Do: answers("b")}, {Task: "a", Kind: 5050, Do: answers("a")}, {Task: "c", Kind: 5100, Do: answers("c")},
	}
	for name, c := range map[string]struct {
		kind nostr.Kind
		task string
		want string
	}{
		"the task":                   {5050, "a", "a"},
		"the first of the kind":      {5050, "", "b"},
		"the only one of the kind":   {5100, "", "c"},
		"a task that is not offered": {5050, "d", ""},
		"a kind that is not offered": {5200, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, services...)
				e := plainEvent()
				if e.Kind = c.kind; c.task != "" {
					e.Tags = append(e.Tags, nostr.Tag{"param", "job_type", c.task})
				}
				id, err := w.says(customer, e)
				w.pass(time.Minute)
				if c.want == "" {
					steptest.WantDrop(t, err, guild.Misdirected)
					if told := w.told(customer, id); len(told) != 1 || told[0].Status != nip90.Error {
						t.Errorf("told %v", told)
					}
					return
				}
				if r, _ := w.result(customer, c.kind+1000, id); r.Content != c.want {
					t.Errorf("done by %q", r.Content)
				}
			})
		})
	}
}

func TestRequestToSeveralProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, summary(leaves(map[string]string{"out": "done"})))
		e := plainEvent()
		e.Tags = nostr.Tags{{"p", mallory.key.Hex()}, {"p", us.key.Hex()}}
		if r, _ := w.result(customer, 6050, w.does(customer, e)); r.Content != "done" {
			t.Errorf("%+v", r)
		}
	})
}

func TestUnreadableRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, summary(echo))
		for _, e := range []nostr.Event{
			encrypted(t, func(string) (string, error) { return "this is no ciphertext", nil }, nil, nil),
			encrypted(t, func(string) (string, error) { return customer.as44("these are no tags") }, nil, nil),
			plainEvent(nostr.Tag{"bid", "a lot"}),
		} {
			id, err := w.says(customer, e)
			steptest.WantDrop(t, err, guild.Malformed)
			told := w.told(customer, id)
			if len(told) != 1 || told[0].Status != nip90.Error || !strings.HasPrefix(told[0].Text+told[0].Content, "this request cannot be read") ||
				(told[0].Encrypted != "") != e.Tags.Has("encrypted") {
				t.Errorf("told %+v", told)
			}
		}
		e := encrypted(t, func(string) (string, error) { return "?", nil }, nil, nil)
		e.Tags[0][1] = mallory.key.Hex()
		e.Tags = append(e.Tags, nostr.Tag{"p", us.key.Hex()})
		if id, _ := w.says(customer, e); len(w.told(customer, id)) != 0 {
			t.Error("what is encrypted for another is our affair")
		}
	})
}

// FuzzPlainRequest wants every request to become a bundle that can be unpacked.
func FuzzPlainRequest(f *testing.F) {
	f.Add("Summarize\n", "text\x00", "key", "value", "text/plain")
	f.Add("", "\xff\xfe", "", "\u2028", "\"")
	f.Add(strings.Repeat("日", 5000), ".", "job_type", "../../x", "")
	f.Fuzz(func(t *testing.T, content, data, key, value, output string) {
		w := newPublic(t, summary(echo))
		r := nip90.Request{Kind: 5050, Content: content, Output: output, Inputs: []nip90.Input{{Data: data, Type: "text", Marker: key}},
			Params: []nip90.Param{{Key: key, Values: []string{value, value}}, {Key: key}}}
		received := fact.RequestReceived{Request: nostr.ID{1}, Customer: customer.key, Task: "oa.summary.v1", Kind: 5050}
		packed, err := w.wrap(t.Context(), w.Work.services["oa.summary.v1"], received, r, nil, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		b, err := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), nutshell.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Manifest().Validate(); err != nil || b.Manifest().Task().Title == "" {
			t.Fatalf("%v: %s", err, b.Manifest().Bytes())
		}
		if in, err := b.ReadFile("files/inputs/01.txt"); err != nil || string(in) != data {
			t.Fatalf("%q, %v", in, err)
		}
	})
}
