package check

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"strings"

	"guild/nutshell/vault"
)

const ageVersion = "age-encryption.org/v1\n"

// formOf recognises how a vault is sealed: it returns one of the forms of package vault, or an empty string. For age it
// also counts the keys that open it; for the others this is unknown.
func formOf(sealed []byte) (form string, keys int) {
	if armored, _ := pem.Decode(sealed); armored != nil && armored.Type == "AGE ENCRYPTED FILE" {
		sealed = armored.Bytes
	}
	if header, ok := bytes.CutPrefix(sealed, []byte(ageVersion)); ok {
		return vault.Age, stanzas(header)
	}
	if isTransit(strings.TrimSpace(string(sealed))) {
		return vault.Transit, 0
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(sealed, &object) != nil {
		return "", 0
	}
	return formOfObject(object), 0
}

func formOfObject(object map[string]json.RawMessage) string {
	if _, ok := object["sops"]; ok {
		return vault.Sops
	}
	for _, raw := range object {
		var text string
		if json.Unmarshal(raw, &text) == nil && isTransit(text) {
			return vault.Transit
		}
	}
	if _, ok := object["credentials"]; ok {
		return vault.Plaintext
	}
	return ""
}

// isTransit reports whether a text is a ciphertext of the transit engine: "vault:v1:…".
func isTransit(text string) bool {
	version, ok := strings.CutPrefix(text, "vault:v")
	if !ok {
		return false
	}
	number, _, ok := strings.Cut(version, ":")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// stanzas counts the recipients in the header of an age file, without grease. It returns 0 if the header has no end.
func stanzas(header []byte) int {
	n := 0
	for line := range bytes.Lines(header) {
		switch {
		case bytes.HasPrefix(line, []byte("--- ")):
			return n
		case bytes.HasPrefix(line, []byte("-> ")):
			kind, _, _ := bytes.Cut(bytes.TrimSpace(line[3:]), []byte(" "))
			if !bytes.HasSuffix(kind, []byte("-grease")) {
				n++
			}
		}
	}
	return 0
}
