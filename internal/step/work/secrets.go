package work

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell/vault"
)

// shortest is the least length of a string that is searched for as a secret, in bytes. Shorter ones are in many texts by
// chance.
const shortest = 8

// Secret is a string that only a worker may read: of a credential that came with a request, or of a variable of the owner.
type Secret struct {
	What  string // a description, as "the value of the variable API_KEY"
	Text  vault.Secret
	Owner bool // it is the node's owner's, so customers do not see the description

	Variable string // name of the variable with it, if it is one of the owner's environment
}

// SecretsIn lists the values of variables ("NAME=value") that may be secret. It leaves out values under 8 bytes and paths
// that exist here; and unless the name says otherwise, single words, numbers, and values whose name is public.
func SecretsIn(env []string) []Secret {
	var all []Secret
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		if mayBeSecret(strings.ToLower(name), strings.TrimSpace(value)) {
			all = append(all, Secret{What: "the value of the variable " + name, Text: vault.NewSecret([]byte(value)), Owner: true, Variable: name})
		}
	}
	return all
}

// public lists names of values that say where something is or who asks, and are no secret. A delivery may hold them.
var public = []string{
	"host", "hostname", "address", "server", "endpoint", "base_url", "port", "database", "dbname", "db", "schema", "bucket",
	"region", "scheme", "driver", "user", "username", "login", "account", "email", "role", "project", "organization", "type", "name",
	"model", "version",
}

// isPublic reports whether a value is no secret by its name, which is in lower case. A URL with a password is a secret under
// any name.
func isPublic(name, value string) bool {
	_, rest, isURL := strings.Cut(value, "://")
	return slices.Contains(public, name) && !(isURL && strings.Contains(rest, "@"))
}

// mayBeSecret reports whether a variable may be secret. Its name is in lower case.
func mayBeSecret(name, value string) bool {
	const letters, digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	if len(value) < shortest || arePaths(value) {
		return false
	}
	for _, part := range []string{"key", "token", "secret", "pass", "cred", "auth"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	for rest, more := name, true; more; _, rest, more = strings.Cut(rest, "_") {
		if isPublic(rest, value) {
			return false
		}
	}
	return strings.Trim(value, letters) != "" && strings.Trim(value, digits) != ""
}

// arePaths reports whether a value is an absolute path that exists here, or a list of such paths.
func arePaths(value string) bool {
	return !slices.ContainsFunc(filepath.SplitList(value), func(path string) bool {
		_, err := os.Stat(path)
		return err != nil || !filepath.IsAbs(path)
	})
}

// watch searches text for secrets. The zero watch finds none.
//
// A worker may print a secret in base64 or hex, or over several lines. So each secret is searched for in all its forms, in
// the text without white space. There may be a hundred forms and a gigabyte of text. One pass suffices: at each position a
// small bit set, the sieve, says whether a form may begin with these 8 bytes, and nearly always it says no. Only then the
// forms with this beginning are compared.
type watch struct {
	forms   map[uint64][]form // by their first 8 bytes
	sieve   [1 << 10]uint64   // a bit for each beginning, by hash
	longest int               // length of the longest form, in bytes
	most    int64             // bytes of an unpacked delivery
}

// form is one encoding of a secret, without white space.
type form struct {
	*Secret
	written vault.Secret
}

func newWatch(secrets []Secret) *watch {
	w := &watch{forms: map[uint64][]form{}, most: maxUnpacked}
	for i := range secrets {
		for _, written := range forms(string(secrets[i].Text.Reveal())) {
			head := binary.LittleEndian.Uint64(written)
			word, bit := hole(head)
			w.sieve[word] |= bit
			w.forms[head] = append(w.forms[head], form{&secrets[i], vault.NewSecret(written)})
			w.longest = max(w.longest, len(written))
		}
	}
	return w
}

// hole returns the bit of the sieve for 8 bytes. Others may have the same bit.
func hole(head uint64) (word int, bit uint64) {
	hash := head * 0x9E3779B97F4A7C15 >> 48
	return int(hash >> 6), 1 << (hash & 63)
}

// forms encodes a text in the ways it may be printed: as it is, backwards, in JSON, in a URL, in escapes, in hex, and in base64
// and base32, where its position within a longer text matters: modulo 3, and modulo 5.
func forms(text string) [][]byte {
	backwards := []rune(text)
	slices.Reverse(backwards)
	escaped, _ := json.Marshal(text) // a string always can be
	quoted, _ := jsontext.AppendQuote(nil, text)
	hexed := hex.EncodeToString([]byte(text))
	all := []string{
		text, string(backwards), string(escaped[1 : len(escaped)-1]), string(quoted[1 : len(quoted)-1]),
		url.QueryEscape(text), url.PathEscape(text), hexed, strings.ToUpper(hexed),
	}
	for lead := range 3 { // bytes before it; characters that encode bits of these are left out
		padded := append(make([]byte, lead), text...)
		first, end := (8*lead+5)/6, 8*len(padded)/6
		all = append(all, base64.RawStdEncoding.EncodeToString(padded)[first:end], base64.RawURLEncoding.EncodeToString(padded)[first:end])
	}
	for _, escape := range []string{`\u00%02x`, `\u00%02X`, `\x%02x`, `\x%02X`, `%%%02x`, `%%%02X`, `&#%d;`} { // each byte, though it need not be
		var b strings.Builder
		for _, c := range []byte(text) {
			fmt.Fprintf(&b, escape, c)
		}
		all = append(all, b.String())
	}
	for lead := range 5 {
		padded := append(make([]byte, lead), text...)
		first, end := (8*lead+4)/5, 8*len(padded)/5
		wide := base32.StdEncoding.EncodeToString(padded)[first:end]
		all = append(all, wide, strings.ToLower(wide))
	}
	var once [][]byte
	for _, one := range all {
		written := solid(nil, []byte(one))
		if len(written) >= shortest && !slices.ContainsFunc(once, func(b []byte) bool { return bytes.Equal(b, written) }) {
			once = append(once, written)
		}
	}
	return once
}

// solid appends a text to b without its white space, and without the zero bytes that UTF-16 has between letters.
func solid(b, text []byte) []byte {
	for _, c := range text {
		if !isSpace(c) {
			b = append(b, c)
		}
	}
	return b
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' || c == 0 }

// in yields the positions of secrets in a text without white space, in order.
func (w *watch) in(text []byte) iter.Seq2[int, form] {
	return func(yield func(int, form) bool) {
		for i := 0; i+8 <= len(text) && w.longest > 0; i++ {
			head := binary.LittleEndian.Uint64(text[i:])
			if word, bit := hole(head); w.sieve[word]&bit == 0 {
				continue
			}
			for _, f := range w.forms[head] {
				if bytes.HasPrefix(text[i:], f.written.Reveal()) && !yield(i, f) {
					return
				}
			}
		}
	}
}

// find returns a secret that is in a text without white space, or nil.
func (w *watch) find(text []byte) *Secret {
	for _, f := range w.in(text) {
		return f.Secret
	}
	return nil
}

// hide removes the secrets from a text.
func (w *watch) hide(text string) string {
	tight := solid(nil, []byte(text))
	if w.find(tight) == nil {
		return text
	}
	var at []int // positions of the bytes of tight in the text
	for i := range len(text) {
		if !isSpace(text[i]) {
			at = append(at, i)
		}
	}
	var clean strings.Builder
	done := 0 // bytes of the text that are copied or removed
	for i, f := range w.in(tight) {
		if first := at[i]; first >= done {
			clean.WriteString(text[done:first] + f.written.String())
		}
		done = max(done, at[i+len(f.written.Reveal())-1]+1)
	}
	return clean.String() + text[done:]
}

// hideIn removes the secrets from an error. An error without any is returned as it is.
func (w *watch) hideIn(err error) error {
	if err == nil || w.hide(err.Error()) == err.Error() {
		return err
	}
	return errors.New(w.hide(err.Error()))
}

// leakError says that a delivery holds a secret.
type leakError struct {
	*Secret
	file string // the file that holds it, or has it in its name
}

func (e *leakError) Error() string {
	text := fmt.Sprintf("the worker left %s in %s, so that nothing is delivered", e.What, e.file)
	if e.Variable != "" {
		text += fmt.Sprintf("; if %[1]s is no secret, set it in the command itself (exec = '%[1]s=value my-agent') instead of by env", e.Variable)
	}
	return text
}

// told returns the text for the customer.
func (e *leakError) told() string {
	if e.Owner {
		return "the worker left something that is not for others, so that nothing is delivered"
	}
	return e.Error()
}
