package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip05"
	"fiatjaf.com/nostr/nip19"

	"guild/internal/control"
)

func resolveProviders(ctx context.Context, texts []string) ([]string, error) {
	var keys []string
	for _, text := range texts {
		k, err := resolveProvider(ctx, text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// resolveProvider resolves the name of a provider to a hex key: hex, npub, nprofile, or a NIP-05
// name, which asks its domain. An npub that is shortened stays as it is: fullKeys asks a node whose it is.
func resolveProvider(ctx context.Context, text string) (string, error) {
	if isShortened(text) {
		return text, nil
	}
	if strings.HasPrefix(text, "npub1") || strings.HasPrefix(text, "nprofile1") {
		return decodeProvider(text)
	}
	if strings.ContainsAny(text, "@.") {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		found, err := nip05.QueryIdentifier(ctx, text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", text, err)
		}
		return found.PublicKey.Hex(), nil
	}
	k, err := nostr.PubKeyFromHex(text)
	if err != nil {
		return "", fmt.Errorf("%q is not a public key: want npub1…, 64 hex digits or name@domain", text)
	}
	return k.Hex(), nil
}

func decodeProvider(text string) (string, error) {
	const whole = 63 // characters of an npub
	if strings.HasPrefix(text, "npub1") && len(text) < whole {
		return "", fmt.Errorf("%s is not all of an npub: give the rest, or both its ends as npub1abcd…wxyz", text)
	}
	_, value, err := nip19.Decode(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", text, err)
	}
	switch v := value.(type) {
	case nostr.PubKey:
		return v.Hex(), nil
	case nostr.ProfilePointer:
		return v.PublicKey.Hex(), nil
	}
	return "", fmt.Errorf("%s names no provider", text)
}

// isShortened reports whether a name is an npub as lists show it: "npub1abcd…wxyz", with three dots or an ellipsis.
func isShortened(text string) bool {
	return strings.HasPrefix(text, "npub1") && (strings.Contains(text, "…") || strings.Contains(text, "..."))
}

// fullKeys puts the key in hex in the place of each shortened npub. A fresh node may not have heard of it yet.
func fullKeys(ctx context.Context, client *control.Client, names []string, fresh bool) ([]string, error) {
	keys := append([]string{}, names...)
	for i, name := range keys {
		if !isShortened(name) {
			continue
		}
		cards, err := onceHeard(ctx, fresh, func() ([]control.Card, error) { return control.Cards.Call(ctx, client, name) })
		if err != nil {
			return nil, err
		}
		keys[i] = cards[0].PubKey // there is one at least, or it were an error
	}
	return keys, nil
}

// onceHeard asks the node about a provider. One that was only just started may not have heard of it yet, and is
// asked again for a while.
func onceHeard[T any](ctx context.Context, fresh bool, ask func() (T, error)) (T, error) {
	const patience, pause = 10 * time.Second, 200 * time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		answer, err := ask()
		unknown, ok := errors.AsType[*control.ProblemError](err)
		if !ok || unknown.Problem.Code != "missing" || !fresh || waited >= patience {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, ctx.Err()
		case <-time.After(pause):
		}
	}
}
