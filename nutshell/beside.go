package nutshell

import (
	"io/fs"
	"path"
	"strings"
)

// HoldsCredentials reports whether a file of the bundle is the vault or is in the folder credentials.
func (m *Manifest) HoldsCredentials(file string) bool {
	for _, vault := range []string{m.read.Credentials.Vault, m.read.APIs.CredentialRef} {
		if vault != "" && path.Clean(vault) == file {
			return true
		}
	}
	first, _, _ := strings.Cut(file, "/")
	return strings.EqualFold(first, "credentials")
}

// vaultToPack returns the path of the vault if it is not to be packed, and then sets credentials.beside in the manifest.
// A vault that is not encrypted is a *PlaintextError, unless the options allow it.
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

// inClear reports whether a vault is not encrypted: it is a JSON document with the version of a vault (section 7 of the
// specification). What the manifest says does not matter.
func inClear(fsys fs.FS, vault string) bool {
	raw, err := ReadDocument(fsys, vault)
	if err != nil {
		return false
	}
	text, err := parseDocument(vault, raw)
	return err == nil && text.has("vault_version")
}
