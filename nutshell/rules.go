package nutshell

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// ignoreFile has the patterns of files to leave out. Package nutshell/ignore reads it; Pack gets them as
// Options.Exclude.
const ignoreFile = ".nutignore"

// UsedFile is the file of a directory that keeps which credentials were used. It is never packed.
const UsedFile = ".credentials-used"

// secretName returns why files or folders of this name are not packed, or an empty string.
func secretName(base string) string {
	lower := strings.ToLower(base)
	switch {
	case strings.HasPrefix(lower, ".env"), path.Ext(lower) == ".env":
		return "environment files may hold secrets"
	case slices.Contains([]string{".netrc", "_netrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", ".dockercfg", ".my.cnf"}, lower):
		return "may hold a password"
	case slices.Contains([]string{".git", ".hg", ".svn", ".bzr", ".jj", "cvs", "_darcs"}, lower):
		return "belongs to version control"
	case path.Ext(lower) == ".nut", strings.HasSuffix(lower, ".nut.age"):
		return "is a bundle itself"
	case lower == UsedFile:
		return "says which credentials were used"
	case strings.HasSuffix(lower, ".nut.sig"), strings.HasSuffix(lower, ".nut.vault"), strings.HasSuffix(lower, ".nut.used"):
		return "belongs beside a bundle"
	case slices.Contains([]string{"id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"}, lower),
		slices.Contains([]string{".key", ".p12", ".pfx", ".ppk", ".jks", ".keystore", ".kdbx"}, path.Ext(lower)):
		return "is named like a private key"
	}
	return ""
}

// IsPrivateKey reports whether a file that begins with head is a private key by its first line that is no comment: PEM,
// OpenSSH, PGP, age or Nostr.
func IsPrivateKey(head []byte) bool {
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		switch {
		case bytes.HasPrefix(line, []byte("-----BEGIN ")) && bytes.Contains(line, []byte("PRIVATE KEY")),
			bytes.HasPrefix(line, []byte("AGE-SECRET-KEY-")),
			bytes.HasPrefix(line, []byte("nsec1")) && len(line) == len("nsec1")+58:
			return true
		case len(line) > 0 && line[0] != '#':
			return false // a key that comes later is in a text about keys, or in a test
		}
	}
	return false
}
