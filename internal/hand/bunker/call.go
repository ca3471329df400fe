package bunker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
)

// request is the decrypted content of a request (NIP-46, kind 24133).
type request struct {
	ID     string   `json:"id"`
	Method string   `json:"method"`
	Params []string `json:"params"`
}

// answer is the decrypted content of an answer. With the result "auth_url", Error is a URL where a person must confirm, and
// another answer follows.
type answer struct {
	ID     string `json:"id"`
	Result string `json:"result"`
	Error  string `json:"error"`
}

const authURL = "auth_url"

// call makes one request and waits for its answer.
func (s *Signer) call(ctx context.Context, method string, params ...string) (string, error) {
	var sending sync.WaitGroup
	defer sending.Wait()
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.Timeout, ErrNoAnswer)
	defer cancel()
	id := rand.Text()
	e, err := s.seal(ctx, request{id, method, params})
	if err != nil {
		return "", fmt.Errorf("%s: %w", method, err)
	}
	answers := make(chan answer, 1)
	s.await(id, answers)
	defer s.unawait(id)
	sent := make(chan error, 1)
	sending.Go(func() {
		_, err := s.config.Pool.Publish(ctx, e, s.relays...)
		sent <- err
	})
	a, err := first(ctx, answers, sent)
	if err != nil {
		return "", fmt.Errorf("%s: %w", method, err)
	}
	if a.Error != "" {
		return "", &RefusedError{method, guild.Cut(a.Error, maxMessage)}
	}
	return a.Result, nil
}

// first waits for the answer, or for the error of sending the request. The answer may come before the relay's OK.
func first(ctx context.Context, answers <-chan answer, sent <-chan error) (answer, error) {
	for {
		select {
		case a := <-answers:
			return a, nil
		case err := <-sent:
			if err != nil {
				return answer{}, err
			}
			sent = nil
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		}
	}
}

func (s *Signer) await(id string, answers chan<- answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[id] = answers
}

func (s *Signer) unawait(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, id)
}

// seal encrypts a request to the signer and signs it as us.
func (s *Signer) seal(ctx context.Context, r request) (guild.Verified, error) {
	plain, err := json.Marshal(r)
	if err != nil {
		return guild.Verified{}, err
	}
	content, err := s.self.Encrypt(ctx, string(plain), s.remote)
	if err != nil {
		return guild.Verified{}, err
	}
	return guild.Sign(ctx, s.self, nostr.Event{
		Kind:      nostr.KindNostrConnect,
		CreatedAt: nostr.Timestamp(s.config.Now().Unix()),
		Tags:      nostr.Tags{{"p", s.remote.Hex()}},
		Content:   content,
	})
}

// receive passes an answer to the call that waits for it. Unreadable and unexpected answers are dropped.
func (s *Signer) receive(ctx context.Context, _ string, e guild.Verified) {
	plain, err := s.self.Decrypt(ctx, e.Event().Content, s.remote)
	if err != nil {
		return
	}
	var a answer
	if json.Unmarshal([]byte(plain), &a) != nil {
		return
	}
	s.mu.Lock()
	answers := s.waiting[a.ID]
	if a.Result != authURL {
		delete(s.waiting, a.ID)
	}
	s.mu.Unlock()
	switch {
	case answers == nil:
	case a.Result == authURL:
		s.confirm(a.Error)
	default:
		answers <- a // has room: an answer is passed on once
	}
}

// confirm passes on the URL where a person must confirm, if it is one for a browser.
func (s *Signer) confirm(raw string) {
	u, err := url.Parse(raw)
	if err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
		s.config.AuthURL(u.String())
	}
}

// signatureOf reads the signature from a signed event. The other fields are known already; the id stands for them.
func signatureOf(event string, id nostr.ID) (signature [64]byte, err error) {
	var signed struct {
		ID  string `json:"id"`
		Sig string `json:"sig"`
	}
	if err := json.Unmarshal([]byte(event), &signed); err != nil {
		return signature, err
	}
	if signed.ID != id.Hex() {
		return signature, errors.New("the signer has signed something else")
	}
	if len(signed.Sig) != hex.EncodedLen(len(signature)) {
		return signature, fmt.Errorf("a signature of %d characters", len(signed.Sig))
	}
	_, err = hex.Decode(signature[:], []byte(signed.Sig))
	return signature, err
}
