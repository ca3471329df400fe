package sops

import (
	"errors"
	"fmt"
	"strings"

	"guild/nutshell/vault"
)

// MissingError reports that sops is not installed.
type MissingError struct{ err error }

func (e *MissingError) Error() string { return "this vault needs the sops program: " + e.err.Error() }
func (e *MissingError) Unwrap() error { return e.err }

// Hint says where to get it.
func (*MissingError) Hint() string {
	return "install sops (https://getsops.io), and see that it is on PATH"
}

// ForeignServerError reports a file whose key is in a HashiCorp Vault that the person has not named. It is a
// vault.ErrNotFor.
type ForeignServerError struct{ Address string }

func (e *ForeignServerError) Error() string {
	return fmt.Sprintf("the vault would have sops send your token to %.200q, which your environment does not name", e.Address)
}

// Is makes it a vault.ErrNotFor.
func (*ForeignServerError) Is(target error) bool { return target == vault.ErrNotFor }

// Hint says how to allow it.
func (*ForeignServerError) Hint() string {
	return "if that server is yours, set VAULT_ADDR or SOPS_HC_VAULT_ALLOWLIST to it"
}

// Error is a failed run of sops.
type Error struct {
	Code int    // its exit code
	Text string // what it said, cut; never a part of the document
}

func (e *Error) Error() string {
	text := strings.Join(strings.Fields(e.Text), " ")
	if text == "" {
		return fmt.Sprintf("sops failed with exit code %d", e.Code)
	}
	return "sops: " + text
}

// Hint says what can be done about it.
func (e *Error) Hint() string {
	switch {
	case strings.Contains(e.Text, "no creation rules"), e.Code == noEncryptionKey, strings.Contains(e.Text, "no matching creation rules"):
		return "name who may open it, or have creation_rules for " + name + " in a .sops.yaml"
	case e.Code == noFile:
		return "this sops is too old to read from a pipe: install 3.10 or newer"
	}
	return ""
}

// Exit codes of sops, as its cmd/sops/codes has them.
const (
	decryptingMAC       = 24
	decryptingTree      = 25
	macMismatch         = 51
	macNotFound         = 52
	noFile              = 100
	noEncryptionKey     = 111
	couldNotRetrieveKey = 128
)

// code returns the exit code of a failed run, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// sealing returns the error of a failed run to encrypt.
func sealing(err error) error { return fmt.Errorf("seal the vault: %w", err) }

// opening returns the error of a failed run to decrypt. It leaves out what sops says about a changed file, which contains
// hashes of the document.
func opening(err error) error {
	e, failed := errors.AsType[*Error](err)
	if !failed {
		return err
	}
	switch e.Code {
	case couldNotRetrieveKey:
		return fmt.Errorf("%w: %w", vault.ErrNotFor, e)
	case decryptingMAC, decryptingTree, macMismatch, macNotFound:
		return fmt.Errorf("%w (sops ended with exit code %d)", vault.ErrTampered, e.Code)
	case noFile:
		return e
	}
	return fmt.Errorf("%w: sops cannot read it (exit code %d)", vault.ErrNotSealed, e.Code)
}
