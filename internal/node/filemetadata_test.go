package node

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/blossom"
	"guild/internal/step/work"
	"guild/nip89"
	"guild/nip90"
	"guild/nutshell/signature"
)

// TestBigFilesAreDescribed shows that what a request names by its URL has metadata at the relay (NIP-94), and that
// nothing is told about an encrypted request.
func TestBigFilesAreDescribed(t *testing.T) {
	t.Parallel()
	content := noise(t)
	packed := bundleOf(t, content)
	for name, c := range map[string]struct {
		card nip89.Handler
		want []byte // what the metadata describes
		mime string
	}{
		"a file of a plain request":         {nip89.Handler{}, content, "application/octet-stream"},
		"a bundle":                          {nip89.Handler{Bundles: true}, packed, signature.MIMEGzip},
		"a file of an encrypted request":    {nip89.Handler{Encryption: []string{"nip44"}}, nil, ""},
		"a bundle and it is encrypted, too": {nip89.Handler{Bundles: true, Encryption: []string{"nip44"}}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			relay := startRelay(t)
			provider := newPeer(t, relay)
			c.card.D, c.card.Kinds, c.card.Tasks = "echo", []int{5000}, []string{"echo"}
			provider.publish(c.card.Event())
			client, customer := start(t, relay, func(*Config) {})
			awaitProviders(t, client, 1)
			open(t, client, packed, control.Hire{})
			request := provider.next(5000)
			stored, _ := provider.stored(nip90.KindFile)
			if c.want == nil {
				if len(stored) > 0 || request.Tags.Find("e") != nil {
					t.Errorf("everybody can read %v and %v", stored, request.Tags)
				}
				return
			}
			r, err := nip90.ParseRequest(request, nil)
			if err != nil {
				t.Fatal(err)
			}
			described := r.Described()
			if len(stored) != 1 || stored[0].PubKey != customer || len(described) != 1 || described[0].Data != stored[0].ID.Hex() || described[0].Relay != relay {
				t.Fatalf("the request names %+v, the relay has %+v", described, stored)
			}
			f, err := nip90.ParseFile(stored[0])
			if err != nil || f.URL != r.Inputs[len(r.Inputs)-1].Data || f.MIME != c.mime || f.Check(guild.Sum(c.want), int64(len(c.want))) != nil {
				t.Errorf("%+v, %v", f, err)
			}
			var got bytes.Buffer
			if _, err := provider.blossom().Download(t.Context(), f.URL, f.Hash, f.Size, &got); err != nil || !bytes.Equal(got.Bytes(), c.want) {
				t.Errorf("%d bytes at its URL, %v", got.Len(), err)
			}
			if _, err := signature.Add(nil, provider.sign(stored[0])); err == nil {
				t.Error("the metadata can be used as the signature of a bundle")
			}
		})
	}
}

// blossom returns a client for the Blossom server of the relay.
func (p *peer) blossom() *blossom.Client {
	return &blossom.Client{Signer: p.key, Now: time.Now, AllowLoopback: true}
}

// upload stores a file at the Blossom server of a relay, and returns its metadata.
func (p *peer) upload(relay string, content []byte) nip90.File {
	p.t.Helper()
	hash := guild.Sum(content)
	at, err := p.blossom().Upload(p.t.Context(), "http"+strings.TrimPrefix(relay, "ws"), bytes.NewReader(content), int64(len(content)), hash)
	if err != nil {
		p.t.Fatal(err)
	}
	return nip90.File{URL: at, MIME: "text/plain", Hash: hash, Size: int64(len(content))}
}

// TestFilesAreCheckedByTheirMetadata has a foreign customer describe its files, truthfully and otherwise.
func TestFilesAreCheckedByTheirMetadata(t *testing.T) {
	t.Parallel()
	relay := startRelay(t)
	first := func(_ context.Context, a work.Assignment) error {
		b, err := os.ReadFile(filepath.Join(a.Inputs, "01.bin"))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(a.Delivery, "output.txt"), b, 0o644)
	}
	_, provider := start(t, relay, func(c *Config) { c.Workers = []Worker{{Task: "text", Kind: 5050, Do: first}} })
	customer, stranger := newPeer(t, relay), newPeer(t, relay)
	content := []byte(strings.Repeat("a long text ", 3000))
	file := customer.upload(relay, content)
	changed := func(change func(*nip90.File)) nostr.Event {
		f := file
		change(&f)
		return f.Event()
	}
	without := func(name string) nostr.Event {
		e := file.Event()
		e.Tags = slices.DeleteFunc(e.Tags, func(tag nostr.Tag) bool { return tag[0] == name })
		return e
	}
	for _, c := range []struct {
		name     string
		author   *peer
		metadata nostr.Event
		refused  string // part of the reason; "" if it is done
	}{
		{"the truth", customer, file.Event(), ""},
		{"no size", customer, without("size"), ""},
		{"a wrong hash", customer, changed(func(f *nip90.File) { f.Hash[0] ^= 1 }), "the file has the hash"},
		{"a wrong size", customer, changed(func(f *nip90.File) { f.Size++ }), "and its metadata says 36001"},
		{"a foreign author", stranger, file.Event(), "it is not signed by the customer"},
		{"no URL", customer, without("url"), "url \"\": malformed"},
		{"no hash", customer, without("x"), "x \"\": malformed"},
		{"another kind", customer, nostr.Event{Kind: 1, Content: "a note"}, "not of the expected kind"},
		{"none", nil, nostr.Event{}, "no relay that this provider reads has the event"},
	} {
		metadata := strings.Repeat("ab", 32)
		if c.author != nil {
			metadata = c.author.publish(c.metadata).ID.Hex()
		}
		customer.publish(nostr.Event{Kind: 5050, Tags: nostr.Tags{
			{"p", provider.Hex()}, {"i", file.URL, "url"}, {"e", metadata, relay, "file"},
		}})
		if c.refused == "" {
			if got := customer.next(6050).Content; got != string(content) {
				t.Errorf("%s: %d bytes came back", c.name, len(got))
			}
			continue
		}
		if got := customer.refusal(); !strings.Contains(got, c.refused) {
			t.Errorf("%s: %q, want %q", c.name, got, c.refused)
		}
	}
	if _, text := customer.stored(6050); strings.Count(text, `"kind":6050`) != 2 {
		t.Errorf("done although it was not the file: %s", guild.Cut(text, 500))
	}
}

// refusal waits for feedback with an error, and returns its text.
func (p *peer) refusal() string {
	p.t.Helper()
	for {
		f, err := nip90.ParseFeedback(p.next(nip90.KindFeedback), nil)
		if err != nil {
			p.t.Fatal(err)
		}
		if f.Status == nip90.Error {
			return f.Text
		}
	}
}

// TestBundleIsCheckedByItsMetadata describes another bundle than the request names.
func TestBundleIsCheckedByItsMetadata(t *testing.T) {
	t.Parallel()
	relay := startRelay(t)
	_, provider := start(t, relay, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer := newPeer(t, relay)
	packed := bundleOf(t, noise(t))
	file := customer.upload(relay, packed)
	for _, c := range []struct {
		size    int64
		refused string
	}{{file.Size, ""}, {1, "the bundle: the file has"}} {
		r := nip90.Request{Kind: 5000, Provider: &provider}
		r.Set(nip90.ParamJobType, "echo")
		if err := r.SetBundle(nip90.Parcel{Hash: file.Hash, Size: file.Size, URL: file.URL}); err != nil {
			t.Fatal(err)
		}
		said := file
		said.Size = c.size
		r.Describe(customer.publish(said.Event()).ID, relay)
		e, err := r.Event()
		if err != nil {
			t.Fatal(err)
		}
		customer.publish(e)
		if c.refused == "" {
			customer.next(6000)
		} else if got := customer.refusal(); !strings.Contains(got, c.refused) {
			t.Errorf("%q, want %q", got, c.refused)
		}
	}
}
