package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"guild/nutshell"
)

// apis looks at the interfaces that the task may call, and at the documents that describe them.
func (c *checker) apis() {
	a := c.m.APIs()
	for _, name := range slices.Sorted(maps.Keys(a.BaseURLs)) {
		u := a.BaseURLs[name]
		if _, _, ok := address(u); !ok {
			c.add(strange, nutshell.Path("apis", "base_urls", name), fmt.Sprintf("apis.base_urls.%s: %q is not a URL", short(name), short(u)), "")
		}
	}
	doc := &nutshell.Endpoints{}
	if c.document(named("apis.endpoints_spec", a.EndpointsSpec), func(b []byte) error {
		read, err := nutshell.ParseEndpoints(b)
		if err == nil {
			doc = read
		}
		return err
	}) {
		c.schemas(path.Dir(path.Clean(a.EndpointsSpec)), doc)
	}
	c.credentialRefs(doc)
}

// schemas follows what endpoints say of bodies and responses, relative to the folder of their document. What is on
// the web or within the document needs no file.
func (c *checker) schemas(folder string, doc *nutshell.Endpoints) {
	for _, e := range doc.Endpoints {
		for _, schema := range []string{e.BodySchema, e.ResponseSchema} {
			p, _, _ := strings.Cut(schema, "#")
			if blank(p) || strings.Contains(p, "://") {
				continue
			}
			whole := path.Join(folder, p)
			if path.IsAbs(p) {
				whole = p
			}
			r := reference{field: "apis.endpoints_spec", path: whole, by: e.Method + " " + e.Path, fix: "Create " + short(whole) + " with the JSON Schema"}
			c.document(r, validJSON)
		}
	}
}

func validJSON(b []byte) error {
	if !json.Valid(b) {
		return errors.New("is not JSON")
	}
	return nil
}

// credentialRefs looks for the credentials that interfaces name: the vault itself, or one of its scopes. Where there
// is no vault at all, that is told already.
func (c *checker) credentialRefs(doc *nutshell.Endpoints) {
	a := c.m.APIs()
	if blank(c.m.Credentials().Vault) {
		return
	}
	told := ""
	for _, r := range []struct{ field, name, kind string }{
		{"apis.credential_ref", a.CredentialRef, a.AuthMethod},
		{"apis.endpoints_spec", doc.Auth.CredentialRef, doc.Auth.Type},
	} {
		if blank(r.name) || r.name == told || c.knownCredential(r.name) {
			continue
		}
		told = r.name
		w := Credential{r.name, kindOr(r.kind)}
		c.add(gap, r.field, fmt.Sprintf("%s: credential_ref %q is not a credential of the vault", short(c.labelOf(r.field)), short(r.name)),
			"Add it with: "+c.addCredential(w))
		c.wants([]Credential{w})
	}
}

// labelOf is what a line about a field of the interfaces begins with.
func (c *checker) labelOf(field string) string {
	if field == "apis.endpoints_spec" {
		return c.m.APIs().EndpointsSpec
	}
	return "apis"
}

// knownCredential reports whether a name is that of the vault or of one of its credentials.
func (c *checker) knownCredential(name string) bool {
	creds := c.m.Credentials()
	return path.Clean(name) == path.Clean(creds.Vault) && creds.Vault != "" ||
		slices.ContainsFunc(creds.Scopes, func(s nutshell.Scope) bool { return s.Name == name })
}
