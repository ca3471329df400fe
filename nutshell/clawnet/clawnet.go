// Package clawnet is the ClawNet extension of a Nutshell bundle (section 10.1 of the specification): who publishes the
// task on a task server, for what reward, and which task it has become there; and how a bundle's tags are called by such
// a server.
//
// It reads and writes extensions.clawnet and nothing else of a manifest, and keeps members that it does not know. It is
// pure: internal/hand/taskserver talks to servers.
package clawnet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"guild/nutshell"
	"guild/nutshell/object"
)

// Name is the member of extensions that this package reads and writes.
const Name = "clawnet"

// DefaultCurrency is the currency of a reward that names none, as in the specification's example.
const DefaultCurrency = "shells"

// Extension is extensions.clawnet. Empty members are left out when it is written; unknown members, the order and the
// spelling of what was read are kept. Manifest.SetExtension writes it.
type Extension struct {
	PeerID      string  // the publisher's identity on the network
	Reputation  Decimal // 0 to 100 on the network; zero if not stated
	Reward      *Reward // nil if not stated
	GossipTopic string

	// Where the task is, once it has been published or claimed. These are notes in a person's directory, and are not
	// in the bundle that others get.
	TaskID string
	Server string // the task server's URL; not in the specification

	read object.Members
}

// Reward is the amount that the publisher pays for the work. Unknown members are kept.
type Reward struct {
	Amount   Decimal // never negative
	Currency string  // DefaultCurrency if empty

	read object.Members
}

// FromManifest reads the extension. It reports false if the manifest has none. For a known member of the wrong type, or
// a negative reward, the error is a *nutshell.ManifestError that names it.
func FromManifest(m *nutshell.Manifest) (Extension, bool, error) {
	raw, ok := m.Extensions()[Name]
	if !ok || bytes.Equal(raw, []byte("null")) {
		return Extension{}, false, nil
	}
	var e Extension
	if err := e.UnmarshalJSON(raw); err != nil {
		wrong := &nutshell.ManifestError{File: nutshell.ManifestFile, Field: "extensions." + Name, Reason: err.Error()}
		if field, ok := errors.AsType[*fieldError](err); ok {
			wrong.Field, wrong.Reason = wrong.Field+"."+field.name, field.reason
		}
		return Extension{}, false, wrong
	}
	return e, true, nil
}

// fieldError reports a member that cannot be read or written.
type fieldError struct{ name, reason string }

func (e *fieldError) Error() string { return e.name + ": " + e.reason }

// Unpublished returns the extension without the notes of where the task is, as it is packed.
func (e Extension) Unpublished() Extension {
	e.TaskID, e.Server = "", ""
	return e
}

// member is a member of an object that this package knows.
type member struct {
	name   string
	value  any // a pointer to it
	always bool
}

func (e *Extension) members() []member {
	return []member{
		{name: "peer_id", value: &e.PeerID}, {name: "reputation", value: &e.Reputation}, {name: "reward", value: &e.Reward},
		{name: "gossip_topic", value: &e.GossipTopic}, {name: "task_id", value: &e.TaskID}, {name: "server", value: &e.Server},
	}
}

// members has the amount of a new reward always, because a reward of nothing is a statement too.
func (r *Reward) members() []member {
	return []member{{name: "amount", value: &r.Amount, always: r.read == nil}, {name: "currency", value: &r.Currency}}
}

// UnmarshalJSON reads the extension.
func (e *Extension) UnmarshalJSON(b []byte) (err error) {
	var read Extension
	if read.read, err = readMembers(b, read.members()); err == nil {
		*e = read
	}
	return err
}

// MarshalJSON writes the extension.
func (e Extension) MarshalJSON() ([]byte, error) { return write(e.read, e.members()) }

// UnmarshalJSON reads a reward.
func (r *Reward) UnmarshalJSON(b []byte) (err error) {
	var read Reward
	read.read, err = readMembers(b, read.members())
	if err == nil && read.Amount.Sign() < 0 {
		err = &fieldError{"amount", "is negative"}
	}
	if err == nil {
		*r = read
	}
	return err
}

// MarshalJSON writes a reward.
func (r Reward) MarshalJSON() ([]byte, error) {
	if r.Amount.Sign() < 0 {
		return nil, &fieldError{"amount", "is negative"}
	}
	return write(r.read, r.members())
}

// String returns the amount and its currency, for people.
func (r Reward) String() string { return r.Amount.String() + " " + cmp.Or(r.Currency, DefaultCurrency) }

// readMembers reads an object, and decodes the members that are known. A null counts as absent.
func readMembers(b []byte, members []member) (object.Members, error) {
	o, err := object.Parse(b)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		raw := o.Value(m.name)
		if raw == nil || bytes.Equal(raw, []byte("null")) {
			continue
		}
		err := json.Unmarshal(raw, m.value)
		if inner, ok := errors.AsType[*fieldError](err); ok {
			return nil, &fieldError{m.name + "." + inner.name, inner.reason}
		}
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, &fieldError{m.name, fmt.Sprintf("a JSON %s does not belong here", wrong.Value)}
		}
		if err != nil {
			return nil, &fieldError{m.name, err.Error()}
		}
	}
	return o, nil
}

// write returns an object with its known members as they are now. A member whose value is the one that was read keeps
// its spelling, such as 500.00 or an escape in a string: a bundle's hash must not change because a tool has read it.
func write(o object.Members, members []member) ([]byte, error) {
	for _, m := range members {
		was, value := o.Value(m.name), reflect.ValueOf(m.value)
		before := reflect.New(value.Type().Elem())
		if was != nil && json.Unmarshal(was, before.Interface()) == nil && reflect.DeepEqual(before.Interface(), m.value) {
			continue
		}
		var text bytes.Buffer // empty removes the member
		if m.always || !value.Elem().IsZero() {
			e := json.NewEncoder(&text)
			e.SetEscapeHTML(false)
			if err := e.Encode(m.value); err != nil {
				return nil, err
			}
		}
		o = o.With(m.name, bytes.TrimSpace(text.Bytes()))
	}
	return o.Text(), nil
}
