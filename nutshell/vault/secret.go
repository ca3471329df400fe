package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const redacted = "[secret]"

// ErrSecret reports an attempt to serialize a secret.
var ErrSecret = errors.New("a secret is not serialized")

// Secret is bytes that cannot be printed by accident: printing, logging and serializing it gives "[secret]", an error or
// an address. The zero value holds none.
//
// The bytes are inside of a function, because package fmt prints the fields of a struct that has a Secret in an
// unexported field without calling its methods; of a function it prints the address.
type Secret struct{ reveal func() []byte }

// NewSecret returns a secret with a copy of b.
func NewSecret(b []byte) Secret {
	kept := bytes.Clone(b)
	return Secret{func() []byte { return kept }}
}

// Reveal returns the bytes. The caller must not change or leak them.
func (s Secret) Reveal() []byte {
	if s.reveal == nil {
		return nil
	}
	return s.reveal()
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.reveal == nil }

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return redacted }

// Format implements fmt.Formatter.
func (Secret) Format(w fmt.State, _ rune) { io.WriteString(w, redacted) }

// MarshalJSON implements json.Marshaler and fails.
func (Secret) MarshalJSON() ([]byte, error) { return nil, ErrSecret }

// MarshalText implements encoding.TextMarshaler and fails.
func (Secret) MarshalText() ([]byte, error) { return nil, ErrSecret }

// MarshalBinary implements encoding.BinaryMarshaler and fails.
func (Secret) MarshalBinary() ([]byte, error) { return nil, ErrSecret }

// GobEncode implements gob.GobEncoder and fails.
func (Secret) GobEncode() ([]byte, error) { return nil, ErrSecret }
