package age

import (
	"bytes"
	"context"
	"io"

	"filippo.io/age"

	"guild/nutshell/vault"
)

// Begin are the bytes that an age file without armour begins with.
const Begin = "age-encryption.org/v1\n"

// Writer encrypts what is written to it, of any size, for the recipients, as `age -r` does. It must be closed.
func (s *Sealer) Writer(ctx context.Context, w io.Writer) (io.WriteCloser, error) {
	recipients, err := s.wrappers(ctx)
	if err != nil {
		return nil, err
	}
	return age.Encrypt(w, recipients...)
}

// Reader decrypts an age file without armour, of any size. Its errors, and those of reading, are those of Open; what was
// read before an error must not be used.
func (s *Sealer) Reader(ctx context.Context, r io.Reader) (io.Reader, error) {
	ring := &keyring{ctx: ctx, keys: s.keys, ui: s.ui}
	plain, err := age.Decrypt(r, ring)
	if err != nil {
		return nil, ring.why(err)
	}
	return authentic{plain}, nil
}

// authentic makes the errors of reading those of a Sealer.
type authentic struct{ r io.Reader }

// Read implements io.Reader.
func (a authentic) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if err != nil && err != io.EOF {
		err = vault.ErrTampered
	}
	return n, err
}

// IsFile reports whether a file that begins with head is an age file without armour.
func IsFile(head []byte) bool { return bytes.HasPrefix(head, []byte(Begin)) }
