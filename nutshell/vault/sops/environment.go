package sops

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// names are the variables that sops and the programs that it runs (gpg, age plugins) may see.
var names = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "TERM", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
	"GNUPGHOME", "GPG_TTY", "GPG_AGENT_INFO", "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS",
	"CLOUDSDK_CONFIG", "GCE_METADATA_HOST", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT", "MSI_SECRET",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// prefixes are the prefixes of more such variables.
var prefixes = []string{"SOPS_", "AWS_", "GOOGLE_", "AZURE_", "VAULT_", "HUAWEICLOUD_", "LC_"}

// otherKeys are the variables by which sops adds keys to the recipients that it is given.
var otherKeys = []string{
	"SOPS_AGE_RECIPIENTS", "SOPS_KMS_ARN", "SOPS_PGP_FP", "SOPS_GCP_KMS_IDS", "SOPS_HUAWEICLOUD_KMS_IDS",
	"SOPS_AZURE_KEYVAULT_URL", "SOPS_AZURE_KEYVAULT_URLS", "SOPS_VAULT_URIS", "SOPS_CONFIG",
}

// environment returns the variables that sops may see.
func environment(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(names, name) && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	})
}

// without returns the environment without some variables.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}

// lookup returns the value of a variable. The last of the same name counts.
func lookup(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// allowed returns the HashiCorp Vaults that a file may name: those in the person's list, or else the person's own.
func allowed(env []string) []string {
	list := lookup(env, "SOPS_HC_VAULT_ALLOWLIST")
	if list == "" {
		list = lookup(env, "VAULT_ADDR")
	}
	var all []string
	for uri := range strings.SplitSeq(list, ",") {
		if uri = strings.TrimSpace(uri); uri != "" && uri != "none" {
			all = append(all, uri)
		}
	}
	return all
}

// identity adds the variable that names a file of keys to sops.
func identity(env []string, path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	defer f.Close()
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	if n == 0 {
		return nil, fmt.Errorf("identity %s: %w", path, err)
	}
	name := "SOPS_AGE_KEY_FILE"
	if line, _, _ := bytes.Cut(head[:n], []byte("\n")); bytes.HasSuffix(bytes.TrimSpace(line), []byte("PRIVATE KEY-----")) {
		name = "SOPS_AGE_SSH_PRIVATE_KEY_FILE"
	}
	return append(without(env, name), name+"="+path), nil
}
