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

// Reward is what the publisher pays for the work. Unknown members are kept.
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
	err := e.UnmarshalJSON(raw)
	if field, ok := errors.AsType[*fieldError](err); ok {
		return Extension{}, false, &nutshell.ManifestError{File: nutshell.ManifestFile, Field: "extensions." + Name + "." + field.name, Reason: field.reason}
	}
	if err != nil {
		return Extension{}, false, &nutshell.ManifestError{File: nutshell.ManifestFile, Field: "extensions." + Name, Reason: err.Error()}
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

// IsZero reports whether there is nothing to write.
func (e Extension) IsZero() bool {
	o, err := write(e.read, e.members())
	return err == nil && len(o) == 0
}

// member is a member of an object that this package knows.
type member struct {
	name   string
	value  any // a pointer to it
	always bool
}

// isAbsent reports whether a member is left out when it is written.
func (m member) isAbsent() bool { return !m.always && reflect.ValueOf(m.value).Elem().IsZero() }

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
func (e *Extension) UnmarshalJSON(b []byte) error {
	o, err := object.Parse(b)
	if err != nil {
		return err
	}
	read := Extension{read: o}
	if err := readMembers(o, read.members()); err != nil {
		return err
	}
	*e = read
	return nil
}

// MarshalJSON writes the extension.
func (e Extension) MarshalJSON() ([]byte, error) {
	o, err := write(e.read, e.members())
	if err != nil {
		return nil, err
	}
	return o.Text(), nil
}

// UnmarshalJSON reads a reward.
func (r *Reward) UnmarshalJSON(b []byte) error {
	o, err := object.Parse(b)
	if err != nil {
		return err
	}
	read := Reward{read: o}
	if err := readMembers(o, read.members()); err != nil {
		return err
	}
	if read.Amount.Sign() < 0 {
		return &fieldError{"amount", "is negative"}
	}
	*r = read
	return nil
}

// MarshalJSON writes a reward.
func (r Reward) MarshalJSON() ([]byte, error) {
	if r.Amount.Sign() < 0 {
		return nil, &fieldError{"amount", "is negative"}
	}
	o, err := write(r.read, r.members())
	if err != nil {
		return nil, err
	}
	return o.Text(), nil
}

// String returns the amount and its currency, for people.
func (r Reward) String() string { return r.Amount.String() + " " + cmp.Or(r.Currency, DefaultCurrency) }

// readMembers decodes the members of an object. A null counts as absent.
func readMembers(o object.Members, members []member) error {
	var errs []error
	for _, m := range members {
		raw := o.Value(m.name)
		if raw == nil || bytes.Equal(raw, []byte("null")) {
			continue
		}
		err := json.Unmarshal(raw, m.value)
		if inner, ok := errors.AsType[*fieldError](err); ok {
			err = &fieldError{m.name + "." + inner.name, inner.reason}
		} else if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			err = &fieldError{m.name, fmt.Sprintf("a JSON %s does not belong here", wrong.Value)}
		} else if err != nil {
			err = &fieldError{m.name, err.Error()}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// write sets the members of an object that say something else than before. It removes absent ones, except a null that
// was there.
func write(o object.Members, members []member) (object.Members, error) {
	for _, m := range members {
		was := o.Value(m.name)
		if m.isAbsent() {
			if !bytes.Equal(was, []byte("null")) {
				o = o.With(m.name, nil)
			}
			continue
		}
		text, err := encode(m.value)
		if err != nil {
			return nil, err
		}
		if was == nil || !bytes.Equal(plain(was), plain(text)) {
			o = o.With(m.name, text)
		}
	}
	return o, nil
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

// plain returns JSON without white space and with the shortest spelling of its strings. Numbers stay as they are
// written.
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
