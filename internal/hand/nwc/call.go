package nwc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/internal/hand/lightning"
)

// request is the decrypted content of a request (kind 23194).
type request struct {
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
}

// answer is the decrypted content of an answer (kind 23195).
type answer struct {
	Type   string         `json:"result_type"`
	Error  *refusal       `json:"error"`
	Result jsontext.Value `json:"result"`
}

type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func parseAnswer(b []byte) (a answer, err error) {
	err = json.Unmarshal(b, &a)
	return a, err
}

// seal makes the signed event of a request, which the wallet ignores after a time if that is not zero.
func (w *Wallet) seal(ctx context.Context, method string, params any, expires time.Time) (guild.Verified, error) {
	encoded, err := json.Marshal(params)
	if err != nil {
		return guild.Verified{}, err
	}
	plain, err := json.Marshal(request{method, encoded})
	if err != nil {
		return guild.Verified{}, err
	}
	wallet := w.config.Connection.Wallet
	content, err := w.self.Encrypt(ctx, string(plain), wallet)
	if err != nil {
		return guild.Verified{}, err
	}
	tags := nostr.Tags{{"p", wallet.Hex()}, {"encryption", "nip44_v2"}}
	if !expires.IsZero() {
		tags = append(tags, nostr.Tag{"expiration", strconv.FormatInt(expires.Unix(), 10)})
	}
	return guild.Sign(ctx, w.self, nostr.Event{
		Kind: nostr.KindNWCWalletRequest, CreatedAt: nostr.Timestamp(w.config.Now().Unix()), Tags: tags, Content: content,
	})
}

// call makes one request that pays nothing, and decodes its result.
func (w *Wallet) call(ctx context.Context, method string, params, result any) error {
	e, err := w.seal(ctx, method, params, w.config.Now().Add(w.config.Timeout+time.Second)) // at least a second
	if err == nil {
		err = w.send(ctx, e, method, result)
	}
	return wrap(method, err)
}

// wrap names the method in an error that does not name it.
func wrap(method string, err error) error {
	if _, named := errors.AsType[*lightning.RefusedError](err); err == nil || named {
		return err
	}
	return fmt.Errorf("wallet: %s: %w", method, err)
}

// send publishes a request, waits for its answer and decodes the result.
func (w *Wallet) send(ctx context.Context, e guild.Verified, method string, result any) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	ctx, cancel := context.WithTimeoutCause(ctx, w.config.Timeout, lightning.ErrNoAnswer)
	defer cancel()
	answers, id := make(chan answer, 1), e.Event().ID
	if !w.await(id, answers) {
		return errors.New("the same request is under way")
	}
	defer w.unawait(id)
	sent := make(chan error, 1)
	sending.Go(func() {
		_, err := w.config.Pool.Publish(ctx, e, w.config.Connection.Relays...)
		sent <- err
	})
	a, err := first(ctx, answers, sent)
	if err != nil {
		return err
	}
	if a.Error != nil {
		return &lightning.RefusedError{Method: method, Code: guild.Cut(a.Error.Code, 50), Message: guild.Cut(a.Error.Message, 500)}
	}
	if a.Type != method {
		return fmt.Errorf("the answer is one to %.50q", a.Type)
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return fmt.Errorf("the answer is malformed: %.300w", err)
	}
	return nil
}

// first waits for the answer, or for the error of sending the request. The answer may come before the relay's OK.
func first(ctx context.Context, answers <-chan answer, sent <-chan error) (answer, error) {
	for {
		select {
		case a := <-answers:
			return a, nil
		case err := <-sent:
			if err != nil {
				return answer{}, cmp.Or(context.Cause(ctx), err)
			}
			sent = nil
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		}
	}
}

func (w *Wallet) await(id nostr.ID, answers chan<- answer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[id] != nil {
		return false
	}
	w.waiting[id] = answers
	return true
}

func (w *Wallet) unawait(id nostr.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, id)
}
