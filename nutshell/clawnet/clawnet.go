// Package clawnet is the ClawNet extension of a Nutshell bundle (section 10.1 of the specification): who publishes
// the task on a task server, for what reward, and which task there it has become; and how a bundle's tags map to
// what such a server calls them.
//
// It reads and writes extensions.clawnet and nothing else of a manifest, and keeps the members of it that it does
// not know. It is pure: internal/taskserver is what talks to a server.
package clawnet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"guild/nutshell"
	"guild/nutshell/object"
)

// Name is the member of extensions that this package reads and writes.
const Name = "clawnet"

// DefaultCurrency is what a reward is paid in where nothing else is said, as in the specification's example.
const DefaultCurrency = "shells"

// Extension is extensions.clawnet. Members that are empty are left out when it is written; unknown ones, the order
// and the spelling of what was read survive. Manifest.SetExtension writes it.
type Extension struct {
	PeerID      string  // the publisher's identity on the network
	Reputation  Decimal // 0 to 100 on the network; zero if not stated
	Reward      *Reward // nil if not stated
	GossipTopic string

	// Where the task is, once it has been published or claimed. These are notes of one person's directory, and
	// no part of the bundle that others get.
	TaskID string
	Server string // the task server's URL; not in the specification

	read object.Members
}

// Reward is what the work is worth to its publisher. Members that are not known survive.
type Reward struct {
	Amount   Decimal // never negative
	Currency string  // DefaultCurrency if empty

	read object.Members
}

// FromManifest reads the extension. It reports false if the manifest has none. A known member of the wrong type, or
// a negative reward, is a *nutshell.ManifestError that names it.
func FromManifest(m *nutshell.Manifest) (Extension, bool, error) {
	raw, ok := m.Extensions()[Name]
	if !ok || bytes.Equal(raw, []byte("null")) {
		return Extension{}, false, nil
	}
	var e Extension
	err := e.UnmarshalJSON(raw)
	if field, ok := errors.AsType[*fieldError](err); ok {
		return Extension{}, false, &nutshell.ManifestError{File: nutshell.ManifestFile, Field: "extensions." + Name + "." + field.name, Reason: field.reason}
	}
	if err != nil {
		return Extension{}, false, &nutshell.ManifestError{File: nutshell.ManifestFile, Field: "extensions." + Name, Reason: err.Error()}
	}
	return e, true, nil
}

// fieldError is a member that cannot be read.
type fieldError struct{ name, reason string }

func (e *fieldError) Error() string { return e.name + ": " + e.reason }

// Unpublished returns the extension without the notes of where the task is, as it belongs into a bundle.
func (e Extension) Unpublished() Extension {
	e.TaskID, e.Server = "", ""
	return e
}

// IsZero reports whether there is nothing to write.
func (e Extension) IsZero() bool {
	o, err := e.members()
	return err == nil && len(o) == 0
}

// UnmarshalJSON reads the extension.
func (e *Extension) UnmarshalJSON(b []byte) error {
	o, err := object.Parse(b)
	if err != nil {
		return err
	}
	read := Extension{read: o}
	if err := errors.Join(
		readMember(o, "peer_id", &read.PeerID), readMember(o, "reputation", &read.Reputation),
		readMember(o, "reward", &read.Reward), readMember(o, "gossip_topic", &read.GossipTopic),
		readMember(o, "task_id", &read.TaskID), readMember(o, "server", &read.Server),
	); err != nil {
		return err
	}
	*e = read
	return nil
}

// MarshalJSON writes the extension.
func (e Extension) MarshalJSON() ([]byte, error) {
	o, err := e.members()
	if err != nil {
		return nil, err
	}
	return o.Text(), nil
}

// members are what was read, with what has changed since.
func (e Extension) members() (object.Members, error) {
	o := e.read
	for _, set := range []func() error{
		func() error { return writeMember(&o, "peer_id", e.PeerID, e.PeerID == "") },
		func() error { return writeMember(&o, "reputation", e.Reputation, e.Reputation == Decimal{}) },
		func() error { return writeMember(&o, "reward", e.Reward, e.Reward == nil) },
		func() error { return writeMember(&o, "gossip_topic", e.GossipTopic, e.GossipTopic == "") },
		func() error { return writeMember(&o, "task_id", e.TaskID, e.TaskID == "") },
		func() error { return writeMember(&o, "server", e.Server, e.Server == "") },
	} {
		if err := set(); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// UnmarshalJSON reads a reward.
func (r *Reward) UnmarshalJSON(b []byte) error {
	o, err := object.Parse(b)
	if err != nil {
		return err
	}
	read := Reward{read: o}
	if err := errors.Join(readMember(o, "amount", &read.Amount), readMember(o, "currency", &read.Currency)); err != nil {
		return err
	}
	if read.Amount.Sign() < 0 {
		return &fieldError{"amount", "is negative"}
	}
	*r = read
	return nil
}

// MarshalJSON writes a reward. A new one always has its amount, because a reward of nothing is a statement too.
func (r Reward) MarshalJSON() ([]byte, error) {
	if r.Amount.Sign() < 0 {
		return nil, &fieldError{"amount", "is negative"}
	}
	o := r.read
	if err := writeMember(&o, "amount", r.Amount, r.Amount == Decimal{} && r.read != nil); err != nil {
		return nil, err
	}
	if err := writeMember(&o, "currency", r.Currency, r.Currency == ""); err != nil {
		return nil, err
	}
	return o.Text(), nil
}

// String is the amount and its currency, for people.
func (r Reward) String() string {
	if r.Currency == "" {
		return r.Amount.String() + " " + DefaultCurrency
	}
	return r.Amount.String() + " " + r.Currency
}

// readMember decodes a member into v; null is as good as none.
func readMember(o object.Members, name string, v any) error {
	raw := o.Value(name)
	if raw == nil || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	err := json.Unmarshal(raw, v)
	if inner, ok := errors.AsType[*fieldError](err); ok {
		return &fieldError{name + "." + inner.name, inner.reason}
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &fieldError{name, fmt.Sprintf("a JSON %s does not belong here", wrong.Value)}
	}
	if err != nil {
		return &fieldError{name, err.Error()}
	}
	return nil
}

// writeMember sets a member to v, unless it says so already. What is absent is taken out, except a null that was
// there before.
func writeMember(o *object.Members, name string, v any, absent bool) error {
	was := o.Value(name)
	if absent {
		if !bytes.Equal(was, []byte("null")) {
			*o = o.With(name, nil)
		}
		return nil
	}
	text, err := encode(v)
	if err != nil {
		return err
	}
	if !same(was, text) {
		*o = o.With(name, text)
	}
	return nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// same reports whether two texts are the same value in the same spelling of numbers, whatever their white space
// and escapes.
func same(a, b []byte) bool {
	if a == nil {
		return false
	}
	return bytes.Equal(plain(a), plain(b))
}

// plain is a text without white space and with the shortest spelling of its strings.
func plain(b []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return b
	}
	text, err := encode(v)
	if err != nil {
		return b
	}
	return text
}
