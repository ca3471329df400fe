package nutshell

import (
	"io/fs"
	"path"
)

// vaultToPack decides about the vault of a tree that is to be packed. It returns the path of the one that is left
// out, and then notes in the manifest that it travels beside the bundle.
func (m *Manifest) vaultToPack(fsys fs.FS, o Options) (leftOut string, err error) {
	c := m.read.Credentials
	vault := path.Clean(c.Vault)
	info, err := fs.Stat(fsys, vault)
	there := err == nil && info.Mode().IsRegular()
	switch {
	case there && c.Encryption == "none" && !o.InsecurePlaintext:
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
