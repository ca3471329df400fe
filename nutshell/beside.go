package nutshell

import (
	"io/fs"
	"path"
	"strings"
)

// HoldsCredentials reports whether a file of the bundle holds credentials by its place: it is the vault, or below the
// folder credentials.
func (m *Manifest) HoldsCredentials(file string) bool {
	for _, vault := range []string{m.read.Credentials.Vault, m.read.APIs.CredentialRef} {
		if vault != "" && path.Clean(vault) == file {
			return true
		}
	}
	first, _, _ := strings.Cut(file, "/")
	return strings.EqualFold(first, "credentials")
}

// vaultToPack decides about the vault of a tree that is to be packed. It returns the path of the one that is left
// out, and then notes in the manifest that it travels beside the bundle.
func (m *Manifest) vaultToPack(fsys fs.FS, o Options) (leftOut string, err error) {
	c := m.read.Credentials
	vault := path.Clean(c.Vault)
	info, err := fs.Stat(fsys, vault)
	there := err == nil && info.Mode().IsRegular()
	switch {
	case there && !o.InsecurePlaintext && (c.Encryption == "none" || inClear(fsys, vault)):
		return "", &PlaintextError{vault}
	case c.Beside:
		return vault, nil
	case !o.VaultBeside:
		return "", nil
	case c.Vault == "":
		return "", &ManifestError{ManifestFile, "credentials.vault", "names no vault that could travel beside the bundle"}
	}
	return vault, m.set(change{[]string{"credentials", "beside"}, true})
}

// inClear reports whether a vault is one that nobody has sealed, whatever the manifest says of it: a JSON document
// with the version of a vault (section 7 of the specification).
func inClear(fsys fs.FS, vault string) bool {
	raw, err := ReadDocument(fsys, vault)
	if err != nil {
		return false
	}
	text, err := parseDocument(vault, raw)
	return err == nil && text.has("vault_version")
}
