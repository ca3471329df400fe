package work

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/blossom"
	"guild/internal/hand/dial"
	"guild/internal/hand/fetch"
	"guild/internal/judging/sandbox/tiers"
	"guild/internal/step/steptest"
	"guild/nip90"
)

// shelf holds the events of relays, and counts the questions for them.
type shelf struct {
	events []guild.Verified
	relays []string // that were asked last
}

// find answers as relays do, with the events that a lying relay adds.
func (s *shelf) find(_ context.Context, f nostr.Filter, relays []string) (found []guild.Verified, err error) {
	s.relays = relays
	for _, v := range s.events {
		if f.Matches(v.Event()) {
			found = append(found, v)
		}
	}
	return found, nil
}

// holds signs an event as p and adds it.
func (s *shelf) holds(t *testing.T, p person, e nostr.Event) nostr.Event {
	t.Helper()
	e.CreatedAt = nostr.Timestamp(1000 + len(s.events))
	v, err := guild.Sign(t.Context(), p.signer, e)
	if err != nil {
		t.Fatal(err)
	}
	s.events = append(s.events, v)
	return v.Event()
}

// answer adds a result of p to a request.
func (s *shelf) answer(t *testing.T, p person, request nostr.Event, content string) nostr.Event {
	t.Helper()
	return s.holds(t, p, nostr.Event{Kind: request.Kind + 1000, Content: content, Tags: nostr.Tags{{"e", request.ID.Hex()}, {"p", request.PubKey.Hex()}}})
}

// seen is a worker that notes its inputs.
type seen struct {
	dir   string
	index []given
	texts map[string]string // by file
}

func (s *seen) do(_ context.Context, a Assignment) error {
	s.dir, s.index, s.texts = a.Inputs, nil, map[string]string{}
	if a.Inputs != "" {
		b, err := os.ReadFile(filepath.Join(a.Inputs, indexFile))
		if err == nil {
			err = json.Unmarshal(b, &s.index)
		}
		if err != nil {
			return err
		}
	}
	for _, g := range s.index {
		b, err := os.ReadFile(filepath.Join(a.Inputs, g.File))
		if err != nil {
			return err
		}
		if guild.Sum(b) != g.SHA256 || int64(len(b)) != g.Size {
			return errors.New("the index is wrong about " + g.File)
		}
		s.texts[g.File] = string(b)
	}
	return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), []byte("done"), 0o644)
}

// files starts an https server called files.example, outside of any synctest bubble.
func files(t *testing.T) fetch.Client {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/table.csv":
			io.WriteString(w, "a,b\n")
		case "/inward":
			http.Redirect(w, r, "https://127.0.0.1/", http.StatusFound)
		case "/large":
			w.Write(make([]byte, 2<<20))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	tls := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	tls.ServerName = "example.com"
	return fetch.Client{Hosts: []string{"files.example"}, Size: 1 << 20, TLS: tls,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) { return dial.Any(ctx, network, address) }}
}

func TestInputsOfBundle(t *testing.T) {
	client := files(t)
	synctest.Test(t, func(t *testing.T) {
		var relays shelf
		note := relays.holds(t, mallory, nostr.Event{Kind: 1, Content: "a note <b>"})
		worker := &seen{}
		w := newWorld(t, python(worker.do))
		w.c.Inputs, w.stored = client, relays.find
		r := task(t, bundle(t, nil))
		r.Inputs = append(r.Inputs,
			nip90.Input{Data: "https://files.example/table.csv", Type: "url", Marker: "table"},
			nip90.Input{Data: note.ID.Hex(), Type: "event", Relay: "wss://theirs.example"},
			nip90.Input{Data: "some text", Type: "text", Marker: "hint"})
		id := w.asks(customer, r)
		if len(w.sent(6000, id)) != 1 {
			t.Fatalf("told %v", w.told(customer, id))
		}
		if strings.Contains(worker.dir, "bundle") || len(worker.index) != 3 {
			t.Fatalf("in %s: %+v", worker.dir, worker.index)
		}
		if g := worker.index[0]; g.Type != "url" || g.Marker != "table" || g.Source != "https://files.example/table.csv" || g.File != "01.csv" || worker.texts["01.csv"] != "a,b\n" {
			t.Errorf("%+v", g)
		}
		var event nostr.Event
		if g := worker.index[1]; g.Type != "event" || g.Source != note.ID.Hex() || json.Unmarshal([]byte(worker.texts[g.File]), &event) != nil {
			t.Errorf("%+v: %q", g, worker.texts[g.File])
		}
		if _, err := guild.Verify(event); err != nil || event.ID != note.ID {
			t.Errorf("%v: %v", err, event)
		}
		if g := worker.index[2]; g.Type != "text" || g.Marker != "hint" || g.Source != "" || worker.texts[g.File] != "some text" {
			t.Errorf("%+v", g)
		}
		if !slices.Equal(relays.relays, []string{"wss://ours.example", "wss://theirs.example"}) {
			t.Errorf("asked %v", relays.relays)
		}

		w.asks(customer, task(t, bundle(t, []byte("alone"))))
		if worker.dir != "" {
			t.Errorf("a directory for nothing: %s", worker.dir)
		}
	})
}

func TestImpossibleInputIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		inputs []nip90.Input
		says   string
	}{
		"a host that is not allowed": {[]nip90.Input{{Data: "https://evil.example/x", Type: "url"}},
			`input "https://evil.example/x": this provider does not fetch from "evil.example": it fetches from files.example`},
		"in clear":        {[]nip90.Input{{Data: "http://files.example/x", Type: "url"}}, `input "http://files.example/x": "http://files.example/x": this provider fetches over https only`},
		"no id":           {[]nip90.Input{{Data: "xyz", Type: "event"}}, `input "xyz": invalid event id`},
		"no job":          {[]nip90.Input{{Data: "xyz", Type: "job"}}, `input "xyz": invalid event id`},
		"a blob anywhere": {[]nip90.Input{{Data: "blob:" + strings.Repeat("a", 64), Type: "url"}}, `input "blob:` + strings.Repeat("a", 64) + `": this provider has no Blossom server to look for blobs on`},
		"too many":        {slices.Repeat([]nip90.Input{{Data: "x", Type: "text"}}, maxInputs+1), "17 inputs, and this provider takes 16"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, python(echo))
				w.c.Inputs, w.stored = fetch.Client{Hosts: []string{"files.example"}}, new(shelf).find
				r := task(t, bundle(t, nil))
				r.Inputs = append(r.Inputs, c.inputs...)
				id, err := w.sends(customer, r)
				steptest.WantDrop(t, err, guild.Malformed)
				w.wantError(id, c.says)
				if w.Journal.Last() != 0 {
					t.Error("a fact was written")
				}
			})
		})
	}
}

func TestBadInputFailsRequest(t *testing.T) {
	client := files(t)
	client.Blobs = &blossom.Client{}
	for location, says := range map[string]string{
		"https://files.example/inward":  `fetch from files.example: it redirects to "https://127.0.0.1", which is not followed`,
		"https://files.example/large":   "fetch from files.example: more than 1048576 bytes: larger than this provider takes",
		"https://files.example/nothing": "fetch from files.example: 404 Not Found",
	} {
		t.Run(location, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				worker := &runs{}
				w := newWorld(t, python(worker.do))
				w.c.Inputs = client
				r := task(t, bundle(t, nil))
				r.Inputs = append(r.Inputs, nip90.Input{Data: location, Type: "url"})
				id := w.asks(customer, r)
				w.wantError(id, `input "`+location+`": `+says)
				if len(worker.list()) != 0 || w.count(id, "request.finished") != 1 {
					t.Errorf("%d runs, facts %v", len(worker.list()), w.facts(id))
				}
			})
		})
	}
}

func TestInputJobResult(t *testing.T) {
	provider, other := newPerson(7), newPerson(8)
	packed := []byte("NUT\x01 the bytes of a bundle")
	parcel, err := nip90.NewParcel(packed).Encode()
	if err != nil {
		t.Fatal(err)
	}
	asked := nostr.Event{Kind: 5100, Tags: nostr.Tags{{"p", provider.key.Hex()}}}
	for name, c := range map[string]struct {
		lay  func(t *testing.T, s *shelf) nostr.ID
		file string // and what it holds
		text string
		says string
	}{
		"by its request": {lay: func(t *testing.T, s *shelf) nostr.ID {
			request := s.holds(t, customer, asked)
			s.answer(t, mallory, request, "forged")
			s.answer(t, provider, request, "the result")
			return request.ID
		}, file: "02.txt", text: "the result"},
		"by the result": {lay: func(t *testing.T, s *shelf) nostr.ID {
			return s.answer(t, provider, s.holds(t, customer, asked), `{"n":1}`).ID
		}, file: "02.json", text: `{"n":1}`},
		"a delivery": {lay: func(t *testing.T, s *shelf) nostr.ID {
			request := s.holds(t, customer, asked)
			s.answer(t, provider, request, parcel)
			return request.ID
		}, file: "02.nut", text: string(packed)},
		"of a request that names none, by the result": {lay: func(t *testing.T, s *shelf) nostr.ID {
			return s.answer(t, other, s.holds(t, customer, nostr.Event{Kind: 5100}), "mine").ID
		}, file: "02.txt", text: "mine"},
		"a stranger's result": {lay: func(t *testing.T, s *shelf) nostr.ID {
			request := s.holds(t, customer, asked)
			s.answer(t, mallory, request, "forged")
			return request.ID
		}, says: "no relay that this provider reads has a result of that job"},
		"a stranger's result, by itself": {lay: func(t *testing.T, s *shelf) nostr.ID {
			return s.answer(t, mallory, s.holds(t, customer, asked), "forged").ID
		}, says: "its request did not ask the provider of that result"},
		"a result of another kind": {lay: func(t *testing.T, s *shelf) nostr.ID {
			request := s.holds(t, customer, asked)
			return s.holds(t, provider, nostr.Event{Kind: 6000, Content: "?", Tags: nostr.Tags{{"e", request.ID.Hex()}}}).ID
		}, says: "its request did not ask the provider of that result"},
		"of a request that names none": {lay: func(t *testing.T, s *shelf) nostr.ID {
			request := s.holds(t, customer, nostr.Event{Kind: 5100})
			s.answer(t, mallory, request, "forged")
			return request.ID
		}, says: "that request names no provider: name the result itself"},
		"a result of no request": {lay: func(t *testing.T, s *shelf) nostr.ID {
			return s.holds(t, provider, nostr.Event{Kind: 6100, Content: "?", Tags: nostr.Tags{{"e", strings.Repeat("a", 64)}}}).ID
		}, says: "the request aaaaaaaa of that result: no relay that this provider reads has the event"},
		"a note": {lay: func(t *testing.T, s *shelf) nostr.ID {
			return s.holds(t, provider, nostr.Event{Kind: 1, Content: "?"}).ID
		}, says: "an event of kind 1 is neither a job nor a result"},
		"what no relay has": {lay: func(*testing.T, *shelf) nostr.ID { return nostr.ID{9} }, says: "no relay that this provider reads has the event"},
		"encrypted for its customer": {lay: func(t *testing.T, s *shelf) nostr.ID {
			request := s.holds(t, customer, asked)
			s.holds(t, provider, nostr.Event{Kind: 6100, Content: "?", Tags: nostr.Tags{{"e", request.ID.Hex()}, {"encrypted"}}})
			return request.ID
		}, says: "the result of that job is encrypted, and not for this provider: send it in the request"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var relays shelf
				earlier := c.lay(t, &relays)
				worker := &seen{}
				w := newWorld(t, summary(worker.do))
				w.stored = relays.find
				id := w.does(customer, plainEvent(nostr.Tag{"i", "go on", "text"}, nostr.Tag{"i", earlier.Hex(), "job"}))
				if c.says != "" {
					w.wantError(id, `input "`+earlier.Hex()+`": `+c.says)
					return
				}
				if len(w.sent(6050, id)) != 1 || worker.texts[c.file] != c.text {
					t.Errorf("told %v, found %v", w.told(customer, id), worker.texts)
				}
			})
		})
	}
}

func TestInputOwnEncryptedResult(t *testing.T) {
	for name, c := range map[string]struct {
		asks   person
		sealed bool
		want   bool
	}{
		"its customer, encrypted": {customer, true, true},
		"its customer, in clear":  {customer, false, false},
		"somebody else":           {mallory, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var relays shelf
				request := relays.holds(t, customer, nostr.Event{Kind: 5050, Tags: nostr.Tags{{"p", us.key.Hex()}}})
				ciphertext, err := us.signer.Encrypt(t.Context(), "the secret result", customer.key)
				if err != nil {
					t.Fatal(err)
				}
				relays.holds(t, us, nostr.Event{Kind: 6050, Content: ciphertext, Tags: nostr.Tags{{"e", request.ID.Hex()}, {"encrypted"}}})
				worker := &seen{}
				w := newWorld(t, summary(worker.do))
				w.stored = relays.find
				in := nostr.Tag{"i", request.ID.Hex(), "job"}
				e := plainEvent(in)
				if c.sealed {
					e = encrypted(t, c.asks.as44, nil, nostr.Tags{in})
				}
				w.does(c.asks, e)
				if worker.texts["01.txt"] == "the secret result" != c.want {
					t.Errorf("found %v", worker.texts)
				}
			})
		})
	}
}

func TestInputResultInRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		packed := []byte("NUT\x01 the bytes of a bundle")
		parcel, err := nip90.NewParcel(packed).Encode()
		if err != nil {
			t.Fatal(err)
		}
		worker := &seen{}
		w := newWorld(t, python(worker.do))
		r := task(t, bundle(t, nil))
		r.Inputs = append(r.Inputs, nip90.Input{Data: parcel, Type: "text", Marker: "job:first"}, nip90.Input{Data: parcel, Type: "text"})
		w.asks(customer, r)
		if worker.texts["01.nut"] != string(packed) || worker.texts["02.txt"] != parcel {
			t.Errorf("%v", worker.texts)
		}
	})
}

func TestCommandInputs(t *testing.T) {
	a, _ := assignment(t)
	for _, inputs := range []string{filepath.Join(filepath.Dir(a.Bundle), "inputs"), filepath.Join(a.Bundle, "files", "inputs")} {
		if err := os.MkdirAll(inputs, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(inputs, indexFile), []byte("[]"), 0o644); err != nil {
			t.Fatal(err)
		}
		a.Inputs = inputs
		if err := (Exec{Runner: Bare{}, Command: `cat "$GUILD_INPUTS/inputs.json" > "$GUILD_DELIVERY/out"`}).Do(t.Context(), a); err != nil {
			t.Error(err)
		}
		if out, err := os.ReadFile(filepath.Join(a.Delivery, "out")); err != nil || string(out) != "[]" {
			t.Errorf("%q, %v", out, err)
		}
	}
	a.Inputs = ""
	if err := (Exec{Runner: Bare{}, Command: `test -z "${GUILD_INPUTS+set}"`}).Do(t.Context(), a); err != nil {
		t.Errorf("GUILD_INPUTS without any: %v", err)
	}
}

func TestSandboxedInputsAreReadOnly(t *testing.T) {
	runner, caps, err := tiers.Pick(t.Context(), "")
	if err != nil {
		t.Logf("there is no sandbox here, and nothing to see: %v", err)
		return
	}
	if warm, ok := runner.(io.Closer); ok {
		defer warm.Close()
	}
	a, _ := assignment(t)
	a.Inputs = filepath.Join(filepath.Dir(a.Bundle), "inputs")
	if err := os.Mkdir(a.Inputs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.Inputs, indexFile), []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	x := Exec{Runner: runner, Command: `cat "$GUILD_INPUTS/inputs.json" > "$GUILD_DELIVERY/out"; echo no > "$GUILD_INPUTS/inputs.json" || echo kept >> "$GUILD_DELIVERY/out"`}
	if err := x.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(a.Delivery, "out"))
	if index, _ := os.ReadFile(filepath.Join(a.Inputs, indexFile)); err != nil || string(out) != "[]kept\n" || string(index) != "[]" {
		t.Errorf("in %s: %q, %v, then %q", caps.Tier, out, err, index)
	}
}
