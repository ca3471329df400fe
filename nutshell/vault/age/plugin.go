package age

import (
	"context"
	"errors"
	"fmt"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

func isPluginIdentity(text string) bool {
	_, _, err := plugin.ParseIdentity(text)
	return err == nil
}

// client asks the person for a plugin. After ctx has ended it does not ask.
func (u UI) client(ctx context.Context) *plugin.ClientUI {
	return &plugin.ClientUI{
		DisplayMessage: func(name, message string) error {
			u.tell(name, message)
			return ctx.Err()
		},
		RequestValue: func(name, prompt string, secret bool) (string, error) {
			prompt = fmt.Sprintf("age-plugin-%s: %s: ", name, prompt)
			switch {
			case ctx.Err() != nil:
				return "", ctx.Err()
			case secret:
				value, err := u.ask(prompt)
				return string(value), err
			case u.Input == nil:
				return "", errors.New("no person can be asked")
			}
			return u.Input(prompt)
		},
		Confirm: func(name, prompt, yes, no string) (bool, error) {
			if u.Confirm == nil || ctx.Err() != nil {
				return false, errors.New("no person can be asked")
			}
			return u.Confirm(fmt.Sprintf("age-plugin-%s: %s", name, prompt), yes, no)
		},
		WaitTimer: func(name string) { u.tell(name, "is waiting") },
	}
}

func (u UI) tell(name, message string) {
	if u.Tell != nil {
		u.Tell(fmt.Sprintf("age-plugin-%s: %s", name, message))
	}
}

// pluginKey is a key of a plugin.
type pluginKey struct {
	encoding string
	ui       UI
}

func (pluginKey) asks() int { return seldom }

func (k pluginKey) open(ctx context.Context, stanzas []*age.Stanza) ([]byte, error) {
	id, err := plugin.NewIdentity(k.encoding, k.ui.client(ctx))
	if err != nil {
		return nil, err
	}
	fileKey, err := abandonable(ctx, func() ([]byte, error) { return id.Unwrap(stanzas) })
	return fileKey, missing(err)
}

func (pluginKey) recipients(context.Context) ([]string, error) { return nil, nil }

// pluginRecipient is a recipient that a plugin seals for.
type pluginRecipient struct {
	ctx      context.Context
	encoding string
	ui       UI
}

// Wrap implements age.Recipient.
func (r pluginRecipient) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	stanzas, _, err := r.WrapWithLabels(fileKey)
	return stanzas, err
}

// WrapWithLabels implements age.RecipientWithLabels.
func (r pluginRecipient) WrapWithLabels(fileKey []byte) ([]*age.Stanza, []string, error) {
	type wrapped struct {
		stanzas []*age.Stanza
		labels  []string
	}
	to, err := plugin.NewRecipient(r.encoding, r.ui.client(r.ctx))
	if err != nil {
		return nil, nil, err
	}
	w, err := abandonable(r.ctx, func() (wrapped, error) {
		stanzas, labels, err := to.WrapWithLabels(fileKey)
		return wrapped{stanzas, labels}, err
	})
	return w.stanzas, w.labels, missing(err)
}

// missing returns the error for a plugin that is not installed.
func missing(err error) error {
	if e, ok := errors.AsType[*plugin.NotFoundError](err); ok {
		return fmt.Errorf("age-plugin-%s is not installed", e.Name)
	}
	return err
}

// abandonable runs a function that waits for a plugin, at most until ctx ends. The library cannot end a plugin that waits
// for somebody to touch a key: then the function goes on in its goroutine until the plugin ends.
func abandonable[T any](ctx context.Context, run func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := run()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
