// Package mint is the client of a Cashu mint: keysets (NUT-01, NUT-02), swaps (NUT-03), minting and melting over Lightning
// (NUT-04, NUT-05, NUT-08, NUT-20, NUT-23), states of proofs (NUT-07) and restored signatures (NUT-09).
//
// A mint is trusted with nothing that can be checked. Each signature must be the one that was asked for, with a valid proof by
// the mint's key for the amount (NUT-12), and the id of a keyset must be that of its keys. A refusal of the mint is an *Error,
// and an answer that contradicts the request or an earlier answer is a *LieError. What only the mint knows, such as whether a
// proof is spent, is returned as the mint's claim.
//
// The package keeps nothing but a cache of keysets. It makes no secrets, stores none and never repeats a request.
package mint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"guild/cashu"
	"guild/internal/hand/dial"
)

// Mint is a mint at one URL. Its methods may be called concurrently. Where the context has no deadline, a call takes 20 seconds
// at most. Every error names the mint; after one that is not an *Error, the mint may have done what it was asked.
type Mint struct {
	base *url.URL
	http http.Client

	mu    sync.Mutex
	known map[string]Keyset // as the mint last described them
}

// New returns the mint at a URL, which must be https unless it is on this machine. The client makes the connections, so it
// decides which addresses can be reached. Its cookies are not used, and redirects are not followed.
func New(base string, client *http.Client) (*Mint, error) {
	u, err := url.Parse(strings.TrimRight(base, "/"))
	const longest = 500
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || len(base) > longest || u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("mint %.100q: not an address like https://host", base)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, fmt.Errorf("mint at %s: its address has a user, a query or a fragment", u.Host)
	case u.Scheme == "http" && !dial.IsLoopback(u.Hostname()):
		return nil, fmt.Errorf("mint at %s: ecash would be sent in clear: use https", u.Host)
	}
	m := &Mint{base: u, http: *client, known: map[string]Keyset{}}
	m.http.Jar = nil
	m.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return m, nil
}

// URL returns the address of the mint, without a slash at the end.
func (m *Mint) URL() string { return m.base.String() }

// Keyset is a keyset as the mint describes it. The fee and the expiry are the mint's claim if the id is of version 00, else they
// are part of the id. Its Keys must not be changed.
type Keyset struct {
	cashu.Keyset
	Active bool // the mint signs with it
}

// maxKeysets limits the keysets of a mint, and so the requests for their keys.
const maxKeysets = 200

// described is a keyset in the list of keysets.
type described struct {
	ID     string `json:"id"`
	Unit   string `json:"unit"`
	Active bool   `json:"active"`
	Fee    uint64 `json:"input_fee_ppk"`
	Expiry uint64 `json:"final_expiry"`
}

// isRead reports whether the keyset is of a version and a unit that this program reads: the id is of version 00 or 01, and the
// unit is a word.
func (d described) isRead() bool {
	size := map[string]int{"00": 16, "01": 66}[d.ID[:min(2, len(d.ID))]]
	return size > 0 && len(d.ID) == size && strings.Trim(d.ID, "0123456789abcdef") == "" && isWord(d.Unit)
}

func isWord(s string) bool {
	const longest = 32
	return s != "" && len(s) <= longest && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// Keysets asks for all keysets of the mint, in its order. Those of other versions than 00 and 01 are left out.
func (m *Mint) Keysets(ctx context.Context) (all []Keyset, err error) {
	ctx, end := m.begin(ctx, "keysets", &err)
	defer end()
	list, err := m.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		k, err := m.describe(ctx, d)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

// Keyset returns the keyset with an id, and asks the mint only if it is not in the cache.
func (m *Mint) Keyset(ctx context.Context, id string) (k Keyset, err error) {
	ctx, end := m.begin(ctx, "keyset", &err)
	defer end()
	return m.keyset(ctx, id)
}

// Active asks which keyset the mint signs with for a unit: of several, the one with the lowest fee.
func (m *Mint) Active(ctx context.Context, unit string) (k Keyset, err error) {
	ctx, end := m.begin(ctx, "active keyset", &err)
	defer end()
	list, err := m.list(ctx)
	if err != nil {
		return Keyset{}, err
	}
	list = slices.DeleteFunc(list, func(d described) bool { return !d.Active || d.Unit != unit })
	if len(list) == 0 {
		return Keyset{}, fmt.Errorf("it has no active keyset of the unit %.32q", unit)
	}
	best := slices.MinFunc(list, func(a, b described) int { return cmp.Or(cmp.Compare(a.Fee, b.Fee), cmp.Compare(a.ID, b.ID)) })
	return m.describe(ctx, best)
}

// keyset is Keyset without the name of the mint in its errors.
func (m *Mint) keyset(ctx context.Context, id string) (Keyset, error) {
	if k, ok := m.cached(id); ok {
		return k, nil
	}
	list, err := m.list(ctx)
	if err != nil {
		return Keyset{}, err
	}
	at := slices.IndexFunc(list, func(d described) bool { return d.ID == id })
	if at < 0 {
		return Keyset{}, fmt.Errorf("it has no keyset %.70q, or one that is not read", id)
	}
	return m.describe(ctx, list[at])
}

func (m *Mint) cached(id string) (Keyset, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.known[id]
	return k, ok
}

// list asks for the list of keysets, and returns those that this program reads.
func (m *Mint) list(ctx context.Context) ([]described, error) {
	var answer keysetsAnswer
	if err := m.call(ctx, nil, &answer, "keysets"); err != nil {
		return nil, err
	}
	list := slices.DeleteFunc([]described(answer.Keysets), func(d described) bool { return !d.isRead() })
	if len(list) > maxKeysets {
		return nil, fmt.Errorf("it has %d keysets; at most %d are read", len(list), maxKeysets)
	}
	seen := map[string]bool{}
	for _, d := range list {
		if seen[d.ID] {
			return nil, lie("keyset %s is listed twice", d.ID)
		}
		seen[d.ID] = true
	}
	return list, nil
}

// describe returns a listed keyset with its keys, from the cache if they are there, and checks its id.
func (m *Mint) describe(ctx context.Context, d described) (Keyset, error) {
	k, ok := m.cached(d.ID)
	if ok && k.Unit != d.Unit {
		return Keyset{}, lie("keyset %s was of the unit %s, and now it is of %s", d.ID, k.Unit, d.Unit)
	}
	if !ok {
		var answer keysAnswer
		if err := m.call(ctx, nil, &answer, "keys", d.ID); err != nil {
			return Keyset{}, err
		}
		if len(answer.Keysets) != 1 || answer.Keysets[0].ID != d.ID || answer.Keysets[0].Unit != d.Unit {
			return Keyset{}, lie("it was asked for the keys of keyset %s, and answers with others", d.ID)
		}
		k.Keys = answer.Keysets[0].Keys
	}
	k = Keyset{cashu.Keyset{ID: d.ID, Unit: d.Unit, Keys: k.Keys, Fee: d.Fee, Expiry: d.Expiry}, d.Active}
	if err := k.Check(); err != nil {
		return Keyset{}, lie("%v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !ok && len(m.known) >= 2*maxKeysets {
		return Keyset{}, errors.New("it has shown too many keysets")
	}
	m.known[d.ID] = k
	return k, nil
}
