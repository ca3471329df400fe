package transit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/openbao/openbao/api/v2"

	"guild"
	"guild/nutshell/vault"
)

// ErrNoKey reports that Options.Key, which sealing needs, is empty.
var ErrNoKey = errors.New("transit: no key is named to seal with")

var errAnswer = errors.New("transit: the server's answer makes no sense")

// InsecureError reports an address to which secrets would be sent unencrypted.
type InsecureError struct{ Address string }

func (e *InsecureError) Error() string {
	return fmt.Sprintf("transit: %.200q is not reached over TLS, and is not on this machine", e.Address)
}

// Hint says what to do.
func (*InsecureError) Hint() string { return "set VAULT_ADDR to an https:// address" }

// OtherKeyError reports a vault that was sealed with another key than the one asked for. It is a vault.ErrNotFor.
type OtherKeyError struct{ Mount, Key string }

func (e *OtherKeyError) Error() string {
	return fmt.Sprintf("the vault is sealed with the key %q of the transit engine at %q", e.Key, e.Mount)
}

// Is makes it a vault.ErrNotFor.
func (*OtherKeyError) Is(target error) bool { return target == vault.ErrNotFor }

// Hint says what to do.
func (*OtherKeyError) Hint() string { return "if these are yours, name them" }

// ServerError reports a request that the server refused, or that did not reach it.
type ServerError struct {
	Address string
	Path    string // of the request, without the version
	Status  int    // of HTTP; 0 if there was no answer
	Text    string // what the server said, cut; empty if it was not in the API's form
	err     error  // why there was no answer
}

func (e *ServerError) Error() string {
	switch {
	case e.Status == 0:
		return fmt.Sprintf("transit: %s: %v", e.Address, e.err)
	case e.Text == "":
		return fmt.Sprintf("transit: %s: %s: HTTP status %d", e.Address, e.Path, e.Status)
	}
	return fmt.Sprintf("transit: %s: %s: %s (%d)", e.Address, e.Path, e.Text, e.Status)
}

// Unwrap returns why there was no answer.
func (e *ServerError) Unwrap() error { return e.err }

// Hint says what can be done about it.
func (e *ServerError) Hint() string {
	mount, _, _ := strings.Cut(e.Path, "/")
	switch {
	case e.Status == 0:
		return "is the server there? VAULT_ADDR or BAO_ADDR says where it is"
	case e.Status == http.StatusForbidden:
		return "set VAULT_TOKEN, or log in with 'vault login': the token needs update on " + e.Path
	case e.Status == http.StatusNotFound:
		return "is the transit engine there? 'vault secrets enable -path=" + mount + " transit', or with bao"
	case e.Status == http.StatusServiceUnavailable:
		return "the server is sealed or in standby: 'vault status' tells"
	case e.Status/100 == 3:
		return "this is a standby server: set VAULT_ADDR to the active one"
	case e.says("non-AEAD"), e.says("context"):
		return "take a key of the type aes256-gcm96, aes128-gcm96 or chacha20-poly1305, without derivation"
	case e.says("too old"):
		return "the key's min_decryption_version is above the version that sealed it"
	}
	return ""
}

func (e *ServerError) says(what string) bool { return strings.Contains(e.Text, what) }

// refused returns the error for a failed request of the client.
func (s *Sealer) refused(path string, err error) error {
	e := &ServerError{Address: s.client.Address(), Path: path}
	answer, ok := errors.AsType[*api.ResponseError](err)
	if !ok {
		e.err = err
		return e
	}
	e.Status = answer.StatusCode
	if !answer.RawError {
		text := strings.Join(strings.Fields(strings.Join(answer.Errors, "; ")), " ")
		e.Text = guild.Cut(text, 300)
	}
	return e
}

// changed are the messages with which the engine reports a ciphertext that is not authentic.
var changed = []string{"message authentication failed", "invalid ciphertext", "could not decode base64", "error decrypting", "unable to decrypt"}

// opening returns the error for a refused request to decrypt.
func opening(err error) error {
	e, ok := errors.AsType[*ServerError](err)
	switch {
	case !ok:
		return err
	case e.Status == http.StatusForbidden, e.Status == http.StatusNotFound, e.Status == http.StatusBadRequest && e.says("not found"), e.says("too old"):
		return fmt.Errorf("%w: %w", vault.ErrNotFor, e)
	case e.Status == http.StatusBadRequest && slices.ContainsFunc(changed, e.says):
		return fmt.Errorf("%w: %w", vault.ErrTampered, e)
	}
	return err
}

// bounded is a transport whose answers are cut at maxAnswer.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}
