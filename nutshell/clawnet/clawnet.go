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
)

// Name is the member of extensions that this package reads and writes.
const Name = "clawnet"

// DefaultCurrency is the currency of a reward that names none, as in the specification's example.
const DefaultCurrency = "shells"

// Extension is extensions.clawnet.
type Extension struct {
	PeerID      string  // the publisher's identity on the network
	Reputation  Decimal // 0 to 100 on the network; zero if not stated
	Reward      *Reward // nil if not stated
	GossipTopic string

	// Where the task is, once it has been published or claimed. These are notes in a person's directory, and are not
	// in the bundle that others get.
	TaskID string
	Server string // the task server's URL; not in the specification
}

// Reward is the amount that the publisher pays for the work.
type Reward struct {
	Amount   Decimal `json:"amount"`             // never negative
	Currency string  `json:"currency,omitempty"` // DefaultCurrency if empty
}

// String returns the amount and its currency, for people.
func (r Reward) String() string { return r.Amount.String() + " " + cmp.Or(r.Currency, DefaultCurrency) }

// Unpublished returns the extension without the notes of where the task is, as it is packed.
func (e Extension) Unpublished() Extension {
	e.TaskID, e.Server = "", ""
	return e
}

// path is where the extension is in a manifest, and before the names of its members.
const path = "extensions." + Name

// member is a member of the extension: its path below that, and a pointer to its value.
type member struct {
	path  string
	value any
}

func (e *Extension) members() []member {
	reward := cmp.Or(e.Reward, &Reward{})
	return []member{
		{".peer_id", &e.PeerID}, {".reputation", &e.Reputation}, {".gossip_topic", &e.GossipTopic}, {".task_id", &e.TaskID},
		{".server", &e.Server}, {".reward.amount", &reward.Amount}, {".reward.currency", &reward.Currency},
	}
}

// FromManifest reads the extension. It reports false if the manifest has none. For a known member of the wrong type, or
// a negative reward, the error is a *nutshell.ManifestError that names it. A null counts as absent.
func FromManifest(m *nutshell.Manifest) (e Extension, found bool, err error) {
	wrong := func(path, reason string) (Extension, bool, error) {
		return Extension{}, false, &nutshell.ManifestError{File: nutshell.ManifestFile, Field: path, Reason: reason}
	}
	for _, object := range []string{path, path + ".reward"} {
		raw, ok := m.Member(object)
		switch {
		case !ok || bytes.Equal(raw, []byte("null")):
			continue
		case raw[0] != '{':
			return wrong(object, "is not a JSON object")
		case object == path:
			found = true
		default:
			e.Reward = new(Reward)
		}
	}
	for _, known := range e.members() {
		raw, ok := m.Member(path + known.path)
		if !ok || bytes.Equal(raw, []byte("null")) {
			continue
		}
		err := json.Unmarshal(raw, known.value)
		if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return wrong(path+known.path, fmt.Sprintf("must not be a JSON %s", mistyped.Value))
		}
		if err != nil {
			return wrong(path+known.path, err.Error())
		}
	}
	if e.Reward != nil && e.Reward.Amount.Sign() < 0 {
		return wrong(path+".reward.amount", "is negative")
	}
	return e, found, nil
}

// Write makes the extension of a manifest say the same as e. It removes empty members, and leaves everything else as it
// is: unknown members, the order, and the spelling of a value that is the same, such as 500.00 or an escape in a string.
// A bundle's hash must not change because a tool has read it. A negative reward is an error.
func (e Extension) Write(m *nutshell.Manifest) error {
	before, _, err := FromManifest(m)
	switch {
	case err != nil:
		return err
	case e.Reward != nil && e.Reward.Amount.Sign() < 0:
		return errors.New("the reward is negative")
	case e.Reward != nil && before.Reward == nil: // a reward of nothing is a statement too
		err = m.Set(path+".reward.amount", e.Reward.Amount)
	case e.Reward == nil && before.Reward != nil:
		before.Reward = nil
		err = m.Remove(path + ".reward")
	}
	was := before.members()
	for i, is := range e.members() {
		value, old := reflect.ValueOf(is.value).Elem(), reflect.ValueOf(was[i].value).Elem()
		switch {
		case err != nil:
			return err
		case value.Equal(old):
		case value.IsZero():
			err = m.Remove(path + is.path)
		default:
			err = m.Set(path+is.path, is.value)
		}
	}
	return err
}
