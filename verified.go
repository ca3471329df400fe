package guild

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"fiatjaf.com/nostr"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
)

// Reasons why an event is refused.
var (
	ErrWrongID      = errors.New("the id is not the hash of the event")
	ErrBadSignature = errors.New("the signature does not verify")
)

// Verified is a Nostr event with a checked id and signature. Only Verify and Sign make one, so code that takes a
// Verified need not check again. Every signature is verified exactly once.
type Verified struct{ event nostr.Event }

// Event returns the event. Its tags are shared; do not modify them.
func (v Verified) Event() nostr.Event { return v.event }

// Verify checks an event from another party: first the id (NIP-01), then the signature (BIP-340).
func Verify(e nostr.Event) (Verified, error) {
	if EventID(e) != e.ID {
		return Verified{}, fmt.Errorf("event %.8s: %w", e.ID.Hex(), ErrWrongID)
	}
	if !verifies(e) {
		return Verified{}, fmt.Errorf("event %.8s: %w", e.ID.Hex(), ErrBadSignature)
	}
	return Verified{e}, nil
}

// verifiesPure checks the signature over e.ID, which the caller has checked. The Nostr library's own check would
// compute the id again, without the escapes \b and \f.
func verifiesPure(e nostr.Event) bool {
	key, err := schnorr.ParsePubKey(e.PubKey[:])
	if err != nil {
		return false
	}
	signature, err := schnorr.ParseSignature(e.Sig[:])
	return err == nil && signature.Verify(e.ID[:], key)
}

// Sign signs e with s. It checks the id, because s can be a remote signer that signed another event, but does not
// verify our own signature.
func Sign(ctx context.Context, s nostr.Signer, e nostr.Event) (Verified, error) {
	if err := s.SignEvent(ctx, &e); err != nil {
		return Verified{}, fmt.Errorf("sign kind %d: %w", e.Kind, err)
	}
	if EventID(e) != e.ID {
		return Verified{}, fmt.Errorf("sign kind %d: %w", e.Kind, ErrWrongID)
	}
	return Verified{e}, nil
}

// EventID computes the id of an event by NIP-01: the SHA-256 of [0,pubkey,created_at,kind,tags,content]. Strings
// escape exactly \n \" \\ \r \t \b \f; all other characters are unchanged.
func EventID(e nostr.Event) nostr.ID {
	b := make([]byte, 0, 256+len(e.Content)+len(e.Content)/8)
	b = append(b, `[0,"`...)
	b = append(b, e.PubKey.Hex()...)
	b = append(b, `",`...)
	b = strconv.AppendInt(b, int64(e.CreatedAt), 10)
	b = append(b, ',')
	b = strconv.AppendUint(b, uint64(e.Kind), 10)
	b = append(b, ",["...)
	for i, tag := range e.Tags {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, value := range tag {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendEscaped(b, value)
		}
		b = append(b, ']')
	}
	b = append(b, "],"...)
	b = appendEscaped(b, e.Content)
	b = append(b, ']')
	return sha256.Sum256(b)
}

func appendEscaped(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		var escape byte
		switch s[i] {
		case '"', '\\':
			escape = s[i]
		case '\n':
			escape = 'n'
		case '\r':
			escape = 'r'
		case '\t':
			escape = 't'
		case '\b':
			escape = 'b'
		case '\f':
			escape = 'f'
		default:
			continue
		}
		b = append(b, s[start:i]...)
		b = append(b, '\\', escape)
		start = i + 1
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
