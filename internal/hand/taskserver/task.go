package taskserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"guild"
	"guild/nutshell/clawnet"
)

// States of a task. A server may have others.
const (
	Open      = "open"
	Assigned  = "assigned"
	Submitted = "submitted"
	Approved  = "approved"
)

// Task is a task as the server has it. None of it is trusted: texts are not cleaned, and only ID is safe in a path.
type Task struct {
	ID          string          `json:"id"`
	AuthorID    string          `json:"author_id"`
	AuthorName  string          `json:"author_name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Tags        Tags            `json:"tags"`
	Deadline    string          `json:"deadline"` // RFC 3339
	Reward      clawnet.Decimal `json:"reward"`
	Status      string          `json:"status"` // Open, Assigned, …
	AssignedTo  string          `json:"assigned_to"`
	Result      string          `json:"result"` // the words of the submission
	Hash        guild.Hash      `json:"nutshell_hash"`
	NutshellID  string          `json:"nutshell_id"` // the id of the bundle's manifest
	BundleType  string          `json:"bundle_type"`
}

// Bid is an offer to do a task.
type Bid struct {
	ID         string          `json:"id"`
	TaskID     string          `json:"task_id"`
	BidderID   string          `json:"bidder_id"`
	BidderName string          `json:"bidder_name"`
	Amount     clawnet.Decimal `json:"amount"`
	Message    string          `json:"message"`
	CreatedAt  string          `json:"created_at"`
}

// Tags are labels. Servers send them as a list, as a string that holds a JSON list, or separated by commas.
type Tags []string

// UnmarshalJSON reads the three forms.
func (t *Tags) UnmarshalJSON(b []byte) error {
	var list []string
	var text string
	if json.Unmarshal(b, &list) != nil && json.Unmarshal(b, &text) != nil {
		return errors.New("tags are neither a list nor a string")
	}
	if text != "" && json.Unmarshal([]byte(text), &list) != nil {
		list = strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
		for i, tag := range list {
			list[i] = strings.TrimSpace(tag)
		}
		list = slices.DeleteFunc(list, func(tag string) bool { return tag == "" })
	}
	*t = list
	return nil
}

// maxID limits the length of an id, in bytes.
const maxID = 128

// CheckID returns an error if id cannot be the id of a task. The id becomes part of a path.
func CheckID(id string) error {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:", r)
	}
	if id == "" || len(id) > maxID || strings.Trim(id, ".") == "" || strings.ContainsFunc(id, func(r rune) bool { return !safe(r) }) {
		return fmt.Errorf("%.140q is not the id of a task: letters, digits, dashes, dots and colons", id)
	}
	return nil
}

// CheckPeer returns an error if peer cannot be the id of a peer.
func CheckPeer(peer string) error {
	if peer == "" || len(peer) > maxID || strings.ContainsFunc(peer, func(r rune) bool { return !unicode.IsGraphic(r) || r == ' ' }) {
		return fmt.Errorf("%.140q is not the id of a peer", peer)
	}
	return nil
}

// parseTask reads the answer that holds one task, alone or as the member task. want is the id that it must have, if
// one is.
func parseTask(b []byte, want string) (Task, error) {
	var answer struct {
		Task
		Inner *Task `json:"task"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return Task{}, decodeError(err)
	}
	t := answer.Task
	if answer.Inner != nil {
		t = *answer.Inner
	}
	if err := CheckID(t.ID); err != nil {
		return Task{}, fmt.Errorf("%w: %w", ErrNotTaskServer, err)
	}
	if want != "" && t.ID != want {
		return Task{}, fmt.Errorf("%w: it is about task %s, not %s", ErrNotTaskServer, t.ID, want)
	}
	return t, nil
}

// parseTasks parses a list of tasks, and parseBids one of bids. They skip what has no id, or no bidder: tasks and bids
// come from strangers, and a bad one must not hide the others.
func parseTasks(b []byte) ([]Task, error) {
	return parseList(b, "tasks", func(t Task) bool { return CheckID(t.ID) == nil })
}

func parseBids(b []byte) ([]Bid, error) {
	return parseList(b, "bids", func(b Bid) bool { return CheckPeer(b.BidderID) == nil })
}

// parseList parses the valid elements of a JSON list, which is alone or a member of an object.
func parseList[T any](b []byte, name string, valid func(T) bool) ([]T, error) {
	var object map[string]json.RawMessage
	if json.Unmarshal(b, &object) == nil && object[name] != nil {
		b = object[name]
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, decodeError(err)
	}
	var all []T
	for _, item := range list {
		var v T
		if json.Unmarshal(item, &v) == nil && valid(v) {
			all = append(all, v)
		}
	}
	return all, nil
}

// decodeError describes an answer of the wrong form without repeating it.
func decodeError(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("%w: %s is a JSON %s", ErrNotTaskServer, wrong.Field, wrong.Value)
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%w: it is not JSON", ErrNotTaskServer)
	}
	return fmt.Errorf("%w: %w", ErrNotTaskServer, err)
}
