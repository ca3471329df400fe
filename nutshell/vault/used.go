package vault

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell"
	"guild/nutshell/object"
)

// maxResult limits the size of a result, in bytes. Package nutshell reads no more.
const maxResult = 8 << 20

// Used is one use of a credential.
type Used struct {
	Name string
	At   time.Time
}

// Uses of credentials outside of jobs are kept in UsedFile of the directory of a bundle, or beside a packed one in a file
// whose name ends in UsedSuffix. Neither is packed.
const (
	UsedFile   = nutshell.UsedFile
	UsedSuffix = ".used"
)

// MaxUsed limits the size of such a file, in bytes.
const MaxUsed = 1 << 20

// Line returns the line of a use in such a file.
func (u Used) Line() []byte { return append(u.text(), '\n') }

func (u Used) text() jsontext.Value {
	return object.Members{}.WithText("name", u.Name).WithText("opened_at", string(moment(u.At))).Text()
}

// ParseUsed reads such a file. Lines that Line has not written are left out: a killed process may have cut one.
func ParseUsed(raw []byte) []Used {
	var all []Used
	for line := range bytes.Lines(raw) {
		var u struct {
			Name string    `json:"name"`
			At   time.Time `json:"opened_at"`
		}
		if json.Unmarshal(line, &u) == nil && isWord(u.Name) && u.Name != "" {
			all = append(all, Used{u.Name, u.At})
		}
	}
	return all
}

// MarkUsed returns a result.json (nutshell.ResultFile) with uses of credentials added to its
// execution_log.credentials_used. All else stays as it is. An empty result becomes one with nothing else in it. The
// errors are those of nutshell.ParseResult.
func MarkUsed(result []byte, used []Used) ([]byte, error) {
	if len(used) == 0 {
		return result, nil
	}
	if len(result) == 0 {
		result = []byte("{}")
	}
	d := text{nutshell.ResultFile, maxResult}
	if err := d.check(result); err != nil {
		return nil, err
	}
	top := objectOf(result)
	log, err := d.optional(top, "execution_log", '{', jsontext.Value("{}"))
	if err != nil {
		return nil, err
	}
	entries, err := d.optional(objectOf(log), "credentials_used", '[', jsontext.Value("[]"))
	if err != nil {
		return nil, err
	}
	all := addUsed(list(entries), used)
	log = lines(objectOf(log).With("credentials_used", listLines(all, "    ")), "  ")
	marked := append(lines(top.With("execution_log", log), ""), '\n')
	return marked, d.check(marked)
}

// optional returns a member, which must be absent, null or of this kind.
func (d text) optional(o object.Members, name string, kind jsontext.Kind, otherwise jsontext.Value) (jsontext.Value, error) {
	switch v := o.Value(name); v.Kind() {
	case kind:
		return v, nil
	case jsontext.KindInvalid, 'n':
		return otherwise, nil
	}
	return nil, d.problem(name, "is of the wrong type")
}

// addUsed adds the uses that are not in the list yet.
func addUsed(all []jsontext.Value, used []Used) []jsontext.Value {
	for _, u := range used {
		o := u.text()
		same := func(v jsontext.Value) bool { // but for white space
			v = v.Clone()
			return v.Compact() == nil && string(v) == string(o)
		}
		if !slices.ContainsFunc(all, same) {
			all = append(all, o)
		}
	}
	return all
}
