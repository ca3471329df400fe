package opinion

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// ErrKey is the error of every attempt to serialise a Key.
var ErrKey = errors.New("a key is not serialised")

const redacted = "[key]"

// Key is an endpoint's key. It cannot be printed, logged or serialised. The zero value means no key.
type Key struct{ reveal func() string }

// NewKey returns a key; an empty text means no key.
func NewKey(text string) Key {
	if text == "" {
		return Key{}
	}
	return Key{func() string { return text }}
}

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.reveal == nil }

// String returns a placeholder.
func (Key) String() string { return redacted }

// GoString returns a placeholder.
func (Key) GoString() string { return redacted }

// Format writes a placeholder, whatever the verb.
func (Key) Format(w fmt.State, _ rune) { io.WriteString(w, redacted) }

// LogValue returns a placeholder.
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON returns ErrKey.
func (Key) MarshalJSON() ([]byte, error) { return nil, ErrKey }

// MarshalText returns ErrKey.
func (Key) MarshalText() ([]byte, error) { return nil, ErrKey }
