// Package parts splits a task into parts that several agents can do at the same time, and merges what they deliver
// into one delivery of the whole.
//
// What is to be done is what is dealt out: the acceptance criteria, the checklist and the test scripts, one after the
// other, so that every part has about as many and each of them is in one part. A script goes where a criterion
// needs it. Everything else (the context, the source files) is needed to do any of it, and is in every part. Hidden
// tests stay with the whole: it is the merged delivery that is judged by them.
//
// A part names the whole as its parent_id, and says in extensions.split which one of how many it is.
//
// The package is pure. What it returns are trees that read from the ones it was given; nothing is copied until
// somebody reads them.
package parts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"guild/nutshell"
)

// Extension is the name under which a part says which one it is, and a merged delivery what it was made of.
const Extension = "split"

// Number is which part of how many.
type Number struct {
	Part int `json:"part"` // from 1 on
	Of   int `json:"of"`
}

// String is as it stands in a title.
func (n Number) String() string { return fmt.Sprintf("part %d of %d", n.Part, n.Of) }

var titleNumber = regexp.MustCompile(` \(part ([0-9]{1,4}) of ([0-9]{1,4})\)$`)

// numberOf reads which part a bundle is: from its extension, or from its title, which a delivery has from its
// request. The zero Number is that it does not say.
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

// isBelow reports whether a path is that of a folder or of something in it.
func isBelow(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }
