// Package parts splits a task into parts that several agents can do at the same time, and merges what they deliver
// into one delivery of the whole.
//
// The acceptance criteria, the checklist items and the test scripts are dealt out in turn, so that all parts have about
// the same number and each item is in one part. A script goes to the parts whose criteria use it. Everything else (the
// context, the source files) is in every part. Hidden tests stay with the whole, because the merged delivery is judged
// by them.
//
// The parent_id of a part is the id of the whole; extensions.split has its number and the number of parts.
//
// The package is pure. The trees that it returns read from the trees that it was given.
package parts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"guild/nutshell"
)

// Extension is the name of the extension with the number of a part, or the parts of a merged delivery.
const Extension = "split"

// Number is the number of a part and of all parts.
type Number struct {
	Part int `json:"part"` // from 1 on
	Of   int `json:"of"`
}

// String returns the form that titles have: "part 1 of 2".
func (n Number) String() string { return fmt.Sprintf("part %d of %d", n.Part, n.Of) }

var titleNumber = regexp.MustCompile(` \(part ([0-9]{1,4}) of ([0-9]{1,4})\)$`)

// numberOf reads the number of a part from its extension, or from its title, which a delivery has from its request. It
// is zero if there is none.
func numberOf(m *nutshell.Manifest) Number {
	var n Number
	if ok, err := m.Extension(Extension, &n); ok && err == nil && n.valid() {
		return n
	}
	if found := titleNumber.FindStringSubmatch(m.Task().Title); found != nil {
		n.Part, _ = strconv.Atoi(found[1])
		n.Of, _ = strconv.Atoi(found[2])
		if n.valid() {
			return n
		}
	}
	return Number{}
}

func (n Number) valid() bool { return n.Part >= 1 && n.Part <= n.Of && n.Of <= MaxParts }

// isBelow reports whether a path is folder or below it.
func isBelow(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }
