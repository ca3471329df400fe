package vault

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell/object"
)

// shortest is the least length of a text that is searched for, in bytes. Shorter ones are in many files by chance.
const shortest = 8

// public lists names of fields that say where something is or who asks, and hold no secret.
var public = []string{
	"host", "hostname", "address", "server", "endpoint", "base_url", "port", "database", "dbname", "db", "schema", "bucket",
	"region", "scheme", "driver", "user", "username", "login", "account", "email", "role", "project", "organization", "type", "name",
}

// Search returns the first file of a tree that holds a value of the vault, and the credential that the value is of; empty if
// there is none. It finds a value as it is, in JSON, in a URL, in hex and in base64, but not in compressed files, so it
// catches mistakes and no intent. Values under 8 bytes are left out, and fields such as host or user.
func (v *Vault) Search(fsys fs.FS) (file, credential string, err error) {
	var all []written
	for _, c := range v.entries {
		for _, text := range secretTexts("", c.Value.Reveal()) {
			all = append(all, written{c.Name, forms(text)})
		}
	}
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || len(all) == 0 {
			return err
		}
		f, err := fsys.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		credential, err = searchIn(io.MultiReader(strings.NewReader(p+"\n"), f), all)
		if credential != "" {
			file = p
			return fs.SkipAll
		}
		return err
	})
	return file, credential, err
}

// written is a value of a credential in the forms that are searched for.
type written struct {
	credential string
	forms      [][]byte
}

// secretTexts returns the strings in a value that may be secret. name is that of the field with the value.
func secretTexts(name string, value jsontext.Value) []string {
	var all []string
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		_, rest, _ := strings.Cut(string(text), "://")
		isPublic := slices.Contains(public, strings.ToLower(name)) && !strings.Contains(rest, "@") // a URL may have a password
		if err == nil && len(text) >= shortest && !isPublic {
			all = append(all, string(text))
		}
	case '{':
		for _, m := range objectOf(value) {
			all = append(all, secretTexts(m.Name, m.Value)...)
		}
	case '[':
		for _, one := range object.Elements(value) {
			all = append(all, secretTexts("", one)...)
		}
	}
	return all
}

// forms returns the ways in which a text may be written. In base64 its place within a longer text matters.
func forms(text string) [][]byte {
	quoted := object.Quote(text)
	escaped, _ := json.Marshal(text) // a string always can be
	all := [][]byte{
		[]byte(text), quoted[1 : len(quoted)-1], escaped[1 : len(escaped)-1], percent(text),
		[]byte(hex.EncodeToString([]byte(text))), []byte(strings.ToUpper(hex.EncodeToString([]byte(text)))),
	}
	for lead := range 3 { // bytes before it; characters that have bits of these, or of what follows, are left out
		padded := append(make([]byte, lead), text...)
		first, end := (8*lead+5)/6, 8*len(padded)/6
		all = append(all, []byte(base64.RawStdEncoding.EncodeToString(padded)[first:end]), []byte(base64.RawURLEncoding.EncodeToString(padded)[first:end]))
	}
	return all
}

// percent writes a text as in a URL (RFC 3986).
func percent(text string) []byte {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
	var b []byte
	for _, c := range []byte(text) {
		if strings.IndexByte(plain, c) >= 0 {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return b
}

// searchIn returns the credential whose value is in a text, or "".
func searchIn(r io.Reader, all []written) (credential string, err error) {
	longest := 0
	for _, w := range all {
		for _, form := range w.forms {
			longest = max(longest, len(form))
		}
	}
	buf := make([]byte, 0, 64<<10+longest)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) || len(buf) == cap(buf) {
			for _, w := range all {
				if slices.ContainsFunc(w.forms, func(form []byte) bool { return bytes.Contains(buf, form) }) {
					return w.credential, nil
				}
			}
			buf = buf[:copy(buf, buf[max(0, len(buf)-longest):])] // where a value may begin
		}
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
	}
}
