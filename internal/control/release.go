package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip89"
	"guild/nip90"
	"guild/nutshell"
)

// Bounds on a release of credentials.
const (
	maxRelease    = 4 << 20 // bytes of the request
	maxRecipients = 64      // keys that credentials are sealed for
	maxNames      = 1000    // credentials
	maxName       = 1024    // bytes of a credential's name
)

// getRecipient returns the node's own age recipient.
func (s *Server) getRecipient(*http.Request) (Recipient, error) {
	recipient, err := s.c.Recipient()
	return Recipient{recipient}, err
}

func (r Release) check() error {
	isBad := func(name string) bool { return name == "" || len(name) > maxName }
	switch {
	case len(r.Names) == 0 || len(r.Names) > maxNames || slices.ContainsFunc(r.Names, isBad):
		return errors.New("it does not name the credentials")
	case len(r.Vaults) == 0 || len(r.Vaults) > maxRecipients:
		return fmt.Errorf("%d sealed vaults, want 1 to %d", len(r.Vaults), maxRecipients)
	case r.Expires < 0:
		return fmt.Errorf("expires %d: want a time", r.Expires)
	}
	for _, v := range r.Vaults {
		switch {
		case !nip89.IsAgeRecipient(v.For):
			return fmt.Errorf("%.24q is not an age recipient (X25519)", v.For)
		case !nip90.IsSealedVault(v.Sealed):
			return errors.New("a vault is not sealed with age")
		case len(v.Sealed) > nip90.MaxVault:
			return fmt.Errorf("a sealed vault of %d bytes; %d travel at most with a request", len(v.Sealed), nip90.MaxVault)
		}
	}
	return nil
}

// postRelease keeps encrypted credentials for a later job: it stores the vaults and a document that describes them.
func (s *Server) postRelease(r *http.Request, asked Release) (Kept, error) {
	if err := asked.check(); err != nil {
		return Kept{}, wrongUsage("", fmt.Errorf("release: %w", err))
	}
	own, err := s.c.Recipient()
	if err != nil {
		return Kept{}, err
	}
	release := fact.Release{Names: asked.Names, Expires: asked.Expires, Anyway: asked.AllowExpired}
	for _, v := range asked.Vaults {
		h, err := s.c.Blobs.PutBytes(r.Context(), v.Sealed)
		if err != nil {
			return Kept{}, err
		}
		if v.For == own {
			v.For = ""
		}
		release.Vaults = append(release.Vaults, fact.Sealed{For: v.For, Vault: h})
	}
	raw, err := json.Marshal(release)
	if err != nil {
		return Kept{}, err
	}
	h, err := s.c.Blobs.PutBytes(r.Context(), raw)
	return Kept{h.String()}, err
}

// release reads the credentials that a job names, if it names any.
func (s *Server) release(text string) (*fact.Release, error) {
	if text == "" {
		return nil, nil
	}
	h, err := guild.ParseHash(text)
	if err != nil {
		return nil, fmt.Errorf("release %.80q: %w", text, err)
	}
	raw, err := s.c.Blobs.ReadAll(h, maxRelease)
	if err != nil {
		return nil, fmt.Errorf("release %.80q: %w", text, err)
	}
	var release fact.Release
	if err := json.Unmarshal(raw, &release); err != nil || len(release.Vaults) == 0 {
		return nil, fmt.Errorf("invalid release %.80q", text)
	}
	return &release, nil
}

// holdsVault reports whether the vault that a bundle's manifest names is in the bundle: it then goes to nobody in
// clear, whomever it is sealed for.
func holdsVault(b *nutshell.Bundle) bool {
	name := path.Clean(b.Manifest().Credentials().Vault)
	return slices.ContainsFunc(b.Files(), func(e nutshell.Entry) bool { return e.Path == name })
}
