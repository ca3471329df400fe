package activity

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/nook"
)

// Limits of what local programs can make a node remember. A report beyond them is a *nook.FieldError.
const (
	MaxRoots  = 32       // root identities of a node, next to its own
	MaxAgents = 1000     // agents of a root identity
	MaxClaim  = 64 << 10 // bytes of one claim
	MaxClaims = 1000     // keys with claims, owners and agents

	maxAhead = 60 // s that a claim may be ahead of our clock
)

// The kinds of claims, NIP-AE.
const (
	ownerClaim   = nostr.Kind(14199) // of an owner, with a p tag for each agent
	agentProfile = nostr.Kind(0)     // of an agent, with a p tag for each owner
)

// ErrClaim means that an event is no claim, or no longer one.
var ErrClaim = errors.New("not a valid claim")

// ErrRoot means that a root identity cannot be used.
var ErrRoot = errors.New("not a root identity")

// claim is the part of a claim that is kept.
type claim struct {
	ID    nostr.ID       `json:"id"`
	At    int64          `json:"at"`              // Unix s
	Until int64          `json:"until,omitempty"` // Unix s, by NIP-40; 0 for ever
	Names []nostr.PubKey `json:"names"`
}

// keyOfClaim returns the name by which the fold has the newest claim of a kind by a key.
func keyOfClaim(kind nostr.Kind, by nostr.PubKey) string { return fmt.Sprintf("%d:%s", kind, by.Hex()) }

// claimOf reads a verified claim. A p tag that is not a key names nobody, and an expiration that is no number has passed.
func claimOf(e nostr.Event) claim {
	c := claim{ID: e.ID, At: int64(e.CreatedAt), Names: []nostr.PubKey{}}
	for _, tag := range e.Tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "p":
			if key, err := nostr.PubKeyFromHex(tag[1]); err == nil {
				c.Names = append(c.Names, key)
			}
		case "expiration":
			until, err := strconv.ParseInt(tag[1], 10, 64)
			if err != nil || until <= 0 {
				until = 1
			}
			c.Until = until // of several the last
		}
	}
	return c
}

func (c claim) expired(now time.Time) bool { return c.Until != 0 && c.Until <= now.Unix() }

func (c claim) names(key nostr.PubKey, now time.Time) bool {
	return !c.expired(now) && slices.Contains(c.Names, key)
}

// Claim records claims: kind 14199 by which a key names its agents, and kind 0 by which an agent names its owners. Of each
// kind and key the newest counts. An older one is refused, so that nobody can replay what was taken back. The error is ErrClaim;
// then none of the claims is recorded.
func (s *Step) Claim(ctx context.Context, claims []nostr.Event) (Counted, error) {
	now := s.c.Now()
	for _, e := range claims {
		if err := checkClaim(e, now); err != nil {
			return Counted{}, fmt.Errorf("%w: %w", ErrClaim, err)
		}
	}
	var done Counted
	for _, e := range claims { // one may fill an entry
		err := s.c.Journal.Do(ctx, fact.ActivitySubject, "", func(tx *journal.Tx) error {
			known, err := s.fold.follows(e)
			switch {
			case err != nil:
				return fmt.Errorf("%w: %w", ErrClaim, err)
			case known:
				done.Duplicates++
			default:
				done.Accepted++
				tx.Append(fact.AgentClaimed{Event: e})
			}
			return nil
		})
		if err != nil {
			return done, fmt.Errorf("record a claim: %w", err)
		}
	}
	return done, nil
}

// ParseClaims parses Nostr events, in a JSON array or one after the other. The error is ErrClaim.
func ParseClaims(b []byte) (claims []nostr.Event, err error) {
	if len(b) > MaxBody {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrClaim, MaxBody)
	}
	if b = bytes.TrimSpace(b); bytes.HasPrefix(b, []byte("[")) {
		if err := json.Unmarshal(b, &claims); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrClaim, err)
		}
		return claims, nil
	}
	for in := json.NewDecoder(bytes.NewReader(b)); ; {
		var e nostr.Event
		if err := in.Decode(&e); errors.Is(err, io.EOF) {
			return claims, nil
		} else if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrClaim, err)
		}
		claims = append(claims, e)
	}
}

// checkClaim checks what an event says by itself.
func checkClaim(e nostr.Event, now time.Time) error {
	if e.Kind != ownerClaim && e.Kind != agentProfile {
		return fmt.Errorf("kind %d: want %d of an owner, or %d of an agent", e.Kind, ownerClaim, agentProfile)
	}
	if raw, err := json.Marshal(e); err != nil || len(raw) > MaxClaim {
		return fmt.Errorf("event %.8s: more than %d bytes", e.ID.Hex(), MaxClaim)
	}
	if _, err := guild.Verify(e); err != nil {
		return err
	}
	c := claimOf(e)
	switch {
	case c.At > now.Unix()+maxAhead:
		return fmt.Errorf("event %.8s: %d s in the future", e.ID.Hex(), c.At-now.Unix())
	case c.expired(now):
		return fmt.Errorf("event %.8s: expired", e.ID.Hex())
	}
	return nil
}

// follows reports whether the newest claim is e itself. If it is newer than e, or there is no place for e, that is the error.
func (f *Fold) follows(e nostr.Event) (known bool, err error) {
	f.View(func(s *state) {
		last, some := s.Claims.Get(keyOfClaim(e.Kind, e.PubKey))
		order := cmp.Or(cmp.Compare(int64(e.CreatedAt), last.At), strings.Compare(last.ID.Hex(), e.ID.Hex())) // NIP-01
		switch {
		case some && order < 0:
			err = fmt.Errorf("event %.8s: replaced by %.8s, which is newer", e.ID.Hex(), last.ID.Hex())
		case !some && s.Claims.Len() >= MaxClaims:
			err = fmt.Errorf("this node has the claims of %d keys already", MaxClaims)
		}
		known = some && order == 0
	})
	return known, err
}

// Root returns the root identity with a name that a local program gives: Own for "" and for the node's key, the npub of a key
// that has claimed agents here, or any other text. The error is ErrRoot.
func (s *Step) Root(name string) (string, error) {
	lower := strings.ToLower(name)
	switch {
	case name == "" || name == s.c.Key:
		return Own, nil
	case strings.HasPrefix(lower, "nsec1"):
		return "", fmt.Errorf("%w: it is a secret key", ErrRoot)
	case len(name) > 128 || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "", fmt.Errorf("%w: want at most 128 bytes of text", ErrRoot)
	}
	key, ok := keyOf(lower)
	if !ok && (strings.HasPrefix(lower, "npub1") || strings.HasPrefix(lower, "nprofile1") || len(lower) == 64 && strings.Trim(lower, "0123456789abcdef") == "") {
		return "", fmt.Errorf("%w: %.20s… is not a valid public key", ErrRoot, name)
	}
	if !ok {
		return name, nil
	}
	npub := nip19.EncodeNpub(key)
	if npub == s.c.Key {
		return Own, nil
	}
	var claimed bool
	s.fold.View(func(s *state) { _, claimed = s.Claims.Get(keyOfClaim(ownerClaim, key)) })
	if !claimed {
		return "", fmt.Errorf("%w of this node: %.20s… is the Nostr key of somebody else, without a claim", ErrRoot, npub)
	}
	return npub, nil
}

// keyOf returns the public key that a text names, as npub or in hex.
func keyOf(text string) (nostr.PubKey, bool) {
	_, value, _ := nip19.Decode(text)
	if key, ok := value.(nostr.PubKey); ok {
		return key, true
	}
	key, err := nostr.PubKeyFromHex(text)
	return key, err == nil
}

// IsProven reports whether a root identity is a key: the node's own, or one that has claimed its agents.
func IsProven(root string) bool {
	_, isKey := keyOf(root)
	return root == Own || isKey
}

// admit checks that the agents of events belong to a root, and that there is place for them. It replaces the name of an agent
// of another key by its npub.
func (f *Fold) admit(root string, events []nook.Event, now time.Time) (err error) {
	f.View(func(s *state) { err = s.admit(root, events, now) })
	if err == nil {
		err = look(f, root, func(a *nook.Account) error { return admitAgents(a, events) })
	}
	return err
}

func (s *state) admit(root string, events []nook.Event, now time.Time) error {
	others := len(s.accounts)
	if s.accounts[Own] != nil {
		others--
	}
	if root != Own && s.accounts[root] == nil && others >= MaxRoots {
		return &nook.FieldError{Field: "rootIdentity", Problem: fmt.Sprintf("this node has %d others already", others)}
	}
	key, proven := keyOf(root)
	for i := range events {
		if !proven {
			break
		}
		e := &events[i]
		agent, ok := keyOf(e.AgentID)
		if !ok || !s.isAgent(agent, key, now) {
			return &nook.FieldError{Field: "agentId", Problem: fmt.Sprintf("%.80q is not proven: want kind %d of the root that names its key, and its kind %d that names the root",
				e.AgentID, ownerClaim, agentProfile)}
		}
		e.AgentID = nip19.EncodeNpub(agent)
	}
	return nil
}

// isAgent reports whether an owner and an agent name each other.
func (s *state) isAgent(agent, owner nostr.PubKey, now time.Time) bool {
	theirs, _ := s.Claims.Get(keyOfClaim(ownerClaim, owner))
	its, _ := s.Claims.Get(keyOfClaim(agentProfile, agent))
	return theirs.names(agent, now) && its.names(owner, now)
}

// admitAgents checks that an account has place for the agents of events.
func admitAgents(a *nook.Account, events []nook.Event) error {
	more := map[string]bool{}
	for _, e := range events {
		if !a.HasAgent(e.AgentID) && e.Type != nook.TypeHeartbeat {
			more[e.AgentID] = true
		}
	}
	if len(more) > 0 && a.NumAgents()+len(more) > MaxAgents {
		return &nook.FieldError{Field: "agentId", Problem: fmt.Sprintf("the root identity has %d agents already, and at most %d", a.NumAgents(), MaxAgents)}
	}
	return nil
}
