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

// apis checks the interfaces that the task may call, and the documents that describe them.
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

// schemas follows the schemas of bodies and responses, whose paths are relative to the folder of the document. A schema
// on the web or within the document needs no file.
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

// credentialRefs checks that the credentials of the interfaces are the vault itself or one of its scopes. If there is no
// vault, credentials reports it.
func (c *checker) credentialRefs(doc *nutshell.Endpoints) {
	a, creds := c.m.APIs(), c.m.Credentials()
	if blank(creds.Vault) {
		return
	}
	known := func(name string) bool {
		return path.Clean(name) == path.Clean(creds.Vault) ||
			slices.ContainsFunc(creds.Scopes, func(s nutshell.Scope) bool { return s.Name == name })
	}
	told := ""
	for _, r := range []struct{ field, label, name, kind string }{
		{field: "apis.credential_ref", label: "apis", name: a.CredentialRef, kind: a.AuthMethod},
		{field: "apis.endpoints_spec", label: a.EndpointsSpec, name: doc.Auth.CredentialRef, kind: doc.Auth.Type},
	} {
		if blank(r.name) || r.name == told || known(r.name) {
			continue
		}
		told = r.name
		w := Credential{r.name, kindOr(r.kind)}
		c.add(gap, r.field, fmt.Sprintf("%s: credential_ref %q is not a credential of the vault", short(r.label), short(r.name)),
			"Add it with: "+c.addCredential(w))
		c.wants([]Credential{w})
	}
}
