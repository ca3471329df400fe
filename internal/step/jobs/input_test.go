package jobs

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// beside lists the inputs of a request without its bundle.
func beside(r nip90.Request) []nip90.Input {
	return slices.DeleteFunc(slices.Clone(r.Inputs), func(in nip90.Input) bool { return in.Marker == nip90.MarkerBundle })
}

func TestInputsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.opens(Order{Inputs: []fact.Input{
			{Data: "https://x.example/data.csv", Type: "url", Marker: "test_data"},
			{Data: nostr.ID{7}.Hex(), Type: "event", Relay: "wss://r.example"},
			{Data: nostr.ID{8}.Hex(), Type: "job", Relay: "wss://r.example", Marker: "summary"},
			{Data: "two\nlines", Type: "text", Marker: "reference_impl"},
		}})
		r, _ := w.asked(alice)
		want := []nip90.Input{
			{Data: "https://x.example/data.csv", Type: "url", Marker: "test_data"},
			{Data: nostr.ID{7}.Hex(), Type: "event", Relay: "wss://r.example"},
			{Data: nostr.ID{8}.Hex(), Type: "job", Relay: "wss://r.example", Marker: "summary"},
			{Data: "two\nlines", Type: "text", Marker: "reference_impl"},
		}
		if got := beside(r); !slices.Equal(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if b, err := r.Bundle(); err != nil || string(b.Inline) != "the task" {
			t.Errorf("%v, %v", b, err)
		}
	})
}

func TestBlobInputIsUploaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		hash, err := w.blobs.PutBytes(t.Context(), []byte("data"))
		if err != nil {
			t.Fatal(err)
		}
		w.opens(Order{Inputs: []fact.Input{{Data: "blob:" + hash.Hex(), Type: "url"}}})
		r, _ := w.asked(alice)
		if got := beside(r); len(got) != 1 || got[0].Data != "https://blob.example/bundle" || string(w.remote[got[0].Data]) != "data" {
			t.Errorf("%+v", got)
		}
	})
}

// accepts opens a job, has alice do it, and accepts what she delivers.
func (w *world) accepts(o Order, encrypted bool) (guild.JobID, nostr.ID) {
	w.Helper()
	id := w.opens(o)
	request := w.attempt(id).ID
	r := nip90.Result{Kind: 6000, Request: request, Customer: customer.key}
	if err := r.SetDelivery(nip90.NewParcel([]byte("the work"))); err != nil {
		w.Fatal(err)
	}
	e, err := r.Event()
	if encrypted {
		e, err = r.Sealed(func(text string) (string, error) { return alice.signer.Encrypt(w.Context(), text, customer.key) })
	}
	if err != nil {
		w.Fatal(err)
	}
	if err := w.says(alice, e); err != nil {
		w.Fatal(err)
	}
	w.judges(id, guild.Success)
	w.ends(id, guild.JobAccepted)
	return id, request
}

func TestInputNamesAcceptedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		first, request := w.accepts(Order{}, false)
		for _, data := range []string{first.String(), request.Hex()} {
			w.opens(Order{Inputs: []fact.Input{{Data: data, Type: "job", Marker: "summary"}}})
			r, _ := w.asked(alice)
			want := []nip90.Input{{Data: request.Hex(), Type: "job", Relay: "wss://ours.example", Marker: "summary"}}
			if got := beside(r); !slices.Equal(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		}
	})
}

func TestEncryptedResultIsEnclosed(t *testing.T) {
	for _, marker := range []string{"", "summary"} {
		synctest.Test(t, func(t *testing.T) {
			reader := alice.offers(0)
			reader.Encrypts = true
			w := newWorld(t, reader)
			first, _ := w.accepts(Order{Private: true}, true)
			w.opens(Order{Private: true, Inputs: []fact.Input{{Data: first.String(), Type: "job", Marker: marker}}})
			r, _ := w.asked(alice)
			got := beside(r)
			if len(got) != 1 || got[0].Type != "text" || got[0].Marker != strings.TrimSuffix("job:"+marker, ":") {
				t.Fatalf("%+v", got)
			}
			p, err := nip90.DecodeParcel(got[0].Data)
			if err != nil || string(p.Inline) != "the work" {
				t.Errorf("%v, %v", p, err)
			}
		})
	}
}

func TestJobWaitsForItsInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0), bob.offers(1))
		first := w.opens(Order{Timeout: 4 * time.Minute})
		second := w.opens(Order{Inputs: []fact.Input{{Data: first.String(), Type: "job"}}})
		w.pass(time.Minute)
		w.wants(second)
		w.restart()
		w.wants(second)
		if err := w.delivers(alice, w.attempt(first).ID, []byte("the work")); err != nil {
			t.Fatal(err)
		}
		w.wants(second)
		w.judges(first, guild.Success)
		w.wants(second, guild.Requested)
	})
}

func TestJobEndsWithFailedInput(t *testing.T) {
	for _, c := range []struct {
		name   string
		happen func(w *world, first guild.JobID)
		ending guild.Ending
		reason string
	}{
		{"rejected", func(w *world, first guild.JobID) {
			w.delivers(alice, w.attempt(first).ID, []byte("the work"))
			w.judges(first, guild.Failure)
		}, guild.JobUnclaimed, "which is rejected"},
		{"cancelled", func(w *world, first guild.JobID) {
			if err := w.Cancel(w.Context(), first); err != nil {
				w.Fatal(err)
			}
			w.pass(time.Second)
		}, guild.JobUnclaimed, "which is cancelled"},
		{"not done in time", func(w *world, _ guild.JobID) { w.pass(2 * time.Minute) }, guild.JobTimedOut, "the deadline passed before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, alice.offers(0))
				first := w.opens(Order{Tries: 1, Timeout: time.Hour})
				second := w.opens(Order{Timeout: 2 * time.Minute, Inputs: []fact.Input{{Data: first.String(), Type: "job"}}})
				c.happen(w, first)
				if job := w.ends(second, c.ending); !strings.Contains(job.Reason, "job "+first.Short()) || !strings.Contains(job.Reason, c.reason) {
					t.Errorf("closed: %s", job.Reason)
				}
				w.wants(second)
			})
		})
	}
}

func TestACancelledJobDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		first := w.opens(Order{})
		second := w.opens(Order{Inputs: []fact.Input{{Data: first.String(), Type: "job"}}})
		if err := w.Cancel(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		w.pass(0)
		w.ends(second, guild.JobCancelled)
	})
}

func TestWrongInputsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := alice.offers(0)
		reader.Encrypts = true
		w := newWorld(t, reader)
		hidden := w.opens(Order{Private: true})
		blob, err := w.blobs.PutBytes(t.Context(), []byte("data"))
		if err != nil {
			t.Fatal(err)
		}
		many := slices.Repeat([]fact.Input{{Data: "x", Type: "text"}}, maxInputs+1)
		for name, o := range map[string]Order{
			"a type that there is not":         {Inputs: []fact.Input{{Data: "x", Type: "file"}}},
			"a text without a word":            {Inputs: []fact.Input{{Type: "text"}}},
			"invalid URL":                      {Inputs: []fact.Input{{Data: "file:///etc/passwd", Type: "url"}}},
			"a URL with a line break":          {Inputs: []fact.Input{{Data: "https://x.example/\n", Type: "url"}}},
			"invalid event":                    {Inputs: []fact.Input{{Data: "note1x", Type: "event"}}},
			"invalid job":                      {Inputs: []fact.Input{{Data: "5f21", Type: "job"}}},
			"a job that is not known":          {Inputs: []fact.Input{{Data: guild.JobID{9}.String(), Type: "job"}}},
			"a private job for one that isn't": {Inputs: []fact.Input{{Data: hidden.String(), Type: "job"}}},
			"a blob that is not here":          {Inputs: []fact.Input{{Data: "blob:" + guild.Sum([]byte("?")).Hex(), Type: "url"}}},
			"a blob that is no hash":           {Inputs: []fact.Input{{Data: "blob:x", Type: "url"}}},
			"a blob in clear of a private job": {Private: true, Inputs: []fact.Input{{Data: "blob:" + blob.Hex(), Type: "url"}}},
			"invalid relay":                    {Inputs: []fact.Input{{Data: nostr.ID{7}.Hex(), Type: "event", Relay: "r.example"}}},
			"the marker of the bundle":         {Inputs: []fact.Input{{Data: "x", Type: "text", Marker: "bundle"}}},
			"the marker of a benchmark":        {Inputs: []fact.Input{{Data: "x", Type: "text", Marker: "benchmark_spec"}}},
			"a marker that reads as a relay":   {Inputs: []fact.Input{{Data: "x", Type: "text", Marker: "wss://r.example"}}},
			"too many":                         {Inputs: many},
			"too much":                         {Inputs: []fact.Input{{Data: strings.Repeat("x", maxInputText), Type: "text"}, {Data: "x", Type: "text"}}},
		} {
			o.Task, o.Kind, o.Bundle = "python", 5000, []byte("x")
			if _, err := w.Open(t.Context(), o); err == nil {
				t.Errorf("%s is taken", name)
			}
		}
	})
}
