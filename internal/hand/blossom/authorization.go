package blossom

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// The verbs of authorizations (BUD-01).
const (
	verbUpload = "upload"
	verbList   = "list"
	verbDelete = "delete"
)

const (
	authorizationLife = 10 * time.Minute
	maxAuthorization  = 16 << 10 // bytes of the header
	clockSkew         = time.Minute
)

// authorization is a verified event of kind 24242.
type authorization struct {
	pubkey nostr.PubKey
	hashes []string // hex; the x tags
}

// names reports whether the authorization is for a blob.
func (a authorization) names(h guild.Hash) bool { return slices.Contains(a.hashes, h.Hex()) }

// authorize checks the Authorization header of a request: its form, verb, time, signature, and its server if it names one.
func authorize(r *http.Request, verb string, now time.Time) (authorization, error) {
	e, err := headerEvent(r.Header.Get("Authorization"))
	if err != nil {
		return authorization{}, fmt.Errorf("authorization: %w", err)
	}
	if err := checkScope(e, verb, r.Host, now); err != nil {
		return authorization{}, fmt.Errorf("authorization: %w", err)
	}
	if _, err := guild.Verify(e); err != nil {
		return authorization{}, fmt.Errorf("authorization: %w", err)
	}
	return authorization{pubkey: e.PubKey, hashes: values(e, "x")}, nil
}

func headerEvent(header string) (nostr.Event, error) {
	var e nostr.Event
	encoded, found := strings.CutPrefix(header, "Nostr ")
	if !found {
		return e, errors.New(`the scheme is not "Nostr"`)
	}
	if len(encoded) > maxAuthorization {
		return e, errors.New("too long")
	}
	b, err := decodeBase64(strings.TrimSpace(encoded))
	if err != nil {
		return e, err
	}
	if !json.Valid(b) {
		return e, errors.New("not JSON")
	}
	return e, e.UnmarshalJSON(b)
}

// decodeBase64 takes both alphabets, with and without padding, because clients differ.
func decodeBase64(s string) ([]byte, error) {
	s = strings.TrimRight(s, "=")
	if strings.ContainsAny(s, "-_") {
		return base64.RawURLEncoding.DecodeString(s)
	}
	return base64.RawStdEncoding.DecodeString(s)
}

func checkScope(e nostr.Event, verb, host string, now time.Time) error {
	if e.Kind != nostr.KindBlobs {
		return fmt.Errorf("kind %d instead of %d", e.Kind, nostr.KindBlobs)
	}
	if !slices.Contains(values(e, "t"), verb) {
		return fmt.Errorf("not for the verb %q", verb)
	}
	if e.CreatedAt.Time().After(now.Add(clockSkew)) {
		return errors.New("made in the future")
	}
	if servers := values(e, "server"); len(servers) > 0 && !slices.Contains(servers, hostname(host)) {
		return errors.New("for another server")
	}
	expiration := e.Tags.Find("expiration")
	if expiration == nil {
		return errors.New("no expiration")
	}
	until, err := strconv.ParseInt(expiration[1], 10, 64)
	if err != nil || until <= now.Unix() {
		return errors.New("expired")
	}
	return nil
}

// values lists the first values of all tags with a name.
func values(e nostr.Event, name string) []string {
	var out []string
	for tag := range e.Tags.FindAll(name) {
		out = append(out, tag[1])
	}
	return out
}

// hostname returns a host without its port, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(host)
}

// authorizationHeader signs an authorization for one verb and one blob at one server.
func authorizationHeader(ctx context.Context, s nostr.Signer, verb, host string, h guild.Hash, now time.Time) (string, error) {
	v, err := guild.Sign(ctx, s, nostr.Event{
		Kind:      nostr.KindBlobs,
		CreatedAt: nostr.Timestamp(now.Unix()),
		Content:   verb + " " + h.Hex(),
		Tags: nostr.Tags{
			{"t", verb},
			{"x", h.Hex()},
			{"expiration", strconv.FormatInt(now.Add(authorizationLife).Unix(), 10)},
			{"server", hostname(host)},
		},
	})
	if err != nil {
		return "", err
	}
	b, err := v.Event().MarshalJSON()
	if err != nil {
		return "", err
	}
	return "Nostr " + base64.StdEncoding.EncodeToString(b), nil
}
