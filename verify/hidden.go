package verify

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"guild"
	"guild/canon"
	"guild/nutshell"
)

// hiddenFormat is the format of hidden.json.
const hiddenFormat = "guild hidden tests 1"

// RevealedTest is a hidden test with what opens the commitment to it.
type RevealedTest struct {
	Path    string     `json:"path"` // below tests/hidden
	Hash    guild.Hash `json:"hash"` // of the salt followed by the content
	Salt    string     `json:"salt"` // 64 hex digits
	Content []byte     `json:"content"`
}

// opens reports whether salt and content give the hash. The salt must be in lower case, so that it has one spelling.
func (t RevealedTest) opens() bool {
	return t.Salt == strings.ToLower(t.Salt) && nutshell.Opens(guild.Commitment{Path: t.Path, Hash: t.Hash, Salt: t.Salt}, t.Content)
}

// revealed is the content of hidden.json.
type revealed struct {
	Format string         `json:"format"`
	Tests  []RevealedTest `json:"tests"`
}

// EncodeHidden returns the content of hidden.json.
func EncodeHidden(tests []RevealedTest) ([]byte, error) {
	return canon.Marshal(revealed{hiddenFormat, tests})
}

// ParseHidden reads hidden.json. Each test must open its commitment and be below tests/hidden.
func ParseHidden(b []byte) ([]RevealedTest, error) {
	if int64(len(b)) > maxFile {
		return nil, fmt.Errorf("over %d bytes", maxFile)
	}
	var file revealed
	canonical, err := canon.Canonical(b)
	if err == nil {
		err = json.Unmarshal(canonical, &file)
	}
	if err != nil {
		return nil, err
	}
	again, err := canon.Marshal(file)
	if err != nil || !bytes.Equal(again, b) || file.Format != hiddenFormat {
		return nil, errors.New("not hidden tests in their canonical form")
	}
	for _, t := range file.Tests {
		if !nutshell.IsHidden(t.Path) {
			return nil, fmt.Errorf("%.200q is not below %s", t.Path, nutshell.HiddenDir)
		}
		if !t.opens() {
			return nil, fmt.Errorf("%.200q is not what was committed to", t.Path)
		}
	}
	return file.Tests, nil
}

// checkHidden checks that hidden.json has the hidden tests that the verdict names, each as it was committed to. Only an
// export that reveals them has the file.
func (x *export) checkHidden() (string, error) {
	b, there := x.files[FileHidden]
	switch {
	case !x.known:
		return "", noReceipt
	case there && x.receipt.VerdictHash.IsZero():
		return "", fmt.Errorf("%s is there, and the receipt names no verdict", FileHidden)
	case !x.hasVerdict:
		return "", absence("there is no verdict that holds")
	case !there && len(x.verdict.Hidden) == 0:
		return "", absence("there are none")
	case !there:
		return "", missing(FileHidden)
	}
	tests, err := ParseHidden(b)
	if err != nil {
		return "", err
	}
	if len(tests) != len(x.verdict.Hidden) {
		return "", fmt.Errorf("%d hidden tests, and the verdict names %d", len(tests), len(x.verdict.Hidden))
	}
	for i, t := range tests {
		if c := x.verdict.Hidden[i]; c.Path != t.Path || c.Hash != t.Hash.String() {
			return "", fmt.Errorf("the verdict names %.200q in the place of %.200q, or with another hash", c.Path, t.Path)
		}
	}
	return fmt.Sprintf("%d, as they were committed to", len(tests)), nil
}
