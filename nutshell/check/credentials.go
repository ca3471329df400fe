package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"guild/nutshell"
	"guild/nutshell/vault"
)

// credentials checks the vault and the scopes.
func (c *checker) credentials() {
	creds := c.m.Credentials()
	want := c.wanted()
	switch {
	case !blank(creds.Vault):
		c.vault(creds, want)
	case len(want) > 0:
		c.add(implied, "credentials.vault", "credentials: no vault configured — agent won't have "+access(want), c.addAll(want))
		c.wants(want)
	}
	c.scopes(creds.Scopes)
	c.unknownValues("credentials.")
}

// wanted returns the credentials that an agent needs: those of the scopes, or else of the data sources and auth_method.
func (c *checker) wanted() []Credential {
	var all []Credential
	known := make(map[Credential]bool)
	add := func(w Credential) {
		if !known[w] {
			known[w] = true
			all = append(all, w)
		}
	}
	for _, s := range c.m.Credentials().Scopes {
		add(Credential{cmp.Or(s.Name, "credential"), kindOr(s.Type)})
	}
	if len(all) > 0 {
		return all
	}
	for _, source := range c.m.Tags().DataSources {
		if !blank(source) && !c.here(source) {
			add(ofSource(source))
		}
	}
	a := c.m.APIs()
	if method := strings.ToLower(strings.TrimSpace(a.AuthMethod)); method != "" && method != "none" {
		add(Credential{"api", a.AuthMethod})
	} else if !blank(a.CredentialRef) {
		add(Credential{"api", kindOr("")})
	}
	return all
}

// here reports whether a data source is a file of the bundle, which needs no credential.
func (c *checker) here(source string) bool {
	p, reason := reference{path: source}.cleaned()
	if reason != "" || strings.Contains(source, "://") {
		return false
	}
	f, err := c.fsys.Open(p)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// ofSource names the credential for a data source such as "postgresql://staging-db.internal:5432/users".
func ofSource(source string) Credential {
	scheme, host, ok := address(source)
	if !ok {
		return Credential{source, source}
	}
	name, _, _ := strings.Cut(host, ".")
	if strings.Trim(name, "[0123456789") == "" { // an address in numbers
		name = scheme
	}
	return Credential{name, scheme}
}

// kindOr returns kind, or a default that a command can name.
func kindOr(kind string) string {
	if blank(kind) {
		return "bearer_token"
	}
	return kind
}

// access names what an agent cannot reach without these credentials.
func access(want []Credential) string {
	db := slices.ContainsFunc(want, func(w Credential) bool { return oneOf(w.Type, databases) })
	api := slices.ContainsFunc(want, func(w Credential) bool { return oneOf(w.Type, tokens) })
	switch {
	case db && api:
		return "DB and API access"
	case db:
		return "DB access"
	case api:
		return "API access"
	}
	return "access"
}

// Parts of the names of types of credential.
const (
	databases = "postgres mysql mariadb sqlite mongo redis sql db database cassandra clickhouse elastic oracle neo4j dynamo"
	tokens    = "token api bearer oauth jwt key http https basic"
)

func oneOf(kind, parts string) bool {
	kind = strings.ToLower(kind)
	return slices.ContainsFunc(strings.Fields(parts), func(part string) bool { return strings.Contains(kind, part) })
}

func (c *checker) addCredential(w Credential) string {
	return c.command("add-credential", slices.Concat(option("name", w.Name), option("type", w.Type))...)
}

// addAll returns the fix for missing credentials: one line for each, maxFixes at most.
func (c *checker) addAll(want []Credential) string {
	if len(want) == 0 {
		return "Add credentials with: " + c.addCredential(Credential{"api", kindOr("")})
	}
	fix := "Add credentials with: " + c.addCredential(want[0])
	for _, w := range want[1:min(len(want), maxFixes)] {
		fix += "\nand: " + c.addCredential(w)
	}
	return fix
}

// wants sets the credentials that would fix the last finding.
func (c *checker) wants(want []Credential) {
	if n := len(c.found); n > 0 {
		c.found[n-1].Wants = want[:min(len(want), maxFixes)]
	}
}

// maxFixes limits the number of credentials that one fix names.
const maxFixes = 8

// vault checks the file of the vault.
func (c *checker) vault(creds nutshell.Credentials, want []Credential) {
	r := reference{field: "credentials.vault", path: creds.Vault, fix: c.addAll(want)}
	p, reason := r.cleaned()
	if creds.Beside && reason == "" && c.vaultTravels(r, p, want) {
		return
	}
	p, info, ok := c.follow(r)
	if !ok {
		if p != "" && !c.there(p) {
			c.wants(want)
		}
		return
	}
	if info.IsDir() {
		c.file(gap, r, p, "is a folder", r.fix)
		return
	}
	sealed, err := nutshell.ReadDocument(c.fsys, p)
	if err != nil {
		c.file(gap, r, p, "cannot be read: "+err.Error(), "")
		return
	}
	c.sealed(r, p, sealed, creds)
}

// vaultTravels reports a vault that travels beside the bundle. It returns false if the vault is in the tree.
func (c *checker) vaultTravels(r reference, p string, want []Credential) bool {
	if c.there(p) {
		if c.o.Packed {
			c.file(strange, r, p, "is in the bundle, although credentials.beside says that it travels beside it", "Pack the bundle again")
		}
		return false
	}
	c.seen[p] = true
	if c.o.Packed {
		c.file(fine, r, p, "travels beside the bundle", "")
	} else {
		c.file(strange, r, p, "travels beside the bundle and is not here — agent won't have "+access(want)+" without it", c.addAll(want))
	}
	return true
}

func (c *checker) there(p string) bool {
	f, err := c.fsys.Open(p)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// sealed compares the form of the vault's file with credentials.encryption.
func (c *checker) sealed(r reference, p string, sealed []byte, creds nutshell.Credentials) {
	is, keys := formOf(sealed)
	says := cmp.Or(creds.Encryption, is)
	switch {
	case len(sealed) == 0:
		c.file(gap, r, p, "empty — agent won't have "+access(c.wanted()), r.fix)
	case len(sealed) > vault.MaxSealed:
		c.file(gap, r, p, "is larger than a vault can be ("+size(vault.MaxSealed)+")", "")
	case says != "" && !slices.Contains([]string{vault.Age, vault.Sops, vault.Transit, vault.Plaintext}, says):
		c.file(fine, r, p, fmt.Sprintf("exists (%s), sealed with %s", size(int64(len(sealed))), short(says)), "")
	case is == "":
		c.file(gap, r, p, "not a sealed vault — nobody can open it", r.fix)
	case is == vault.Plaintext && says != is:
		c.file(gap, r, p, "NOT ENCRYPTED, although credentials.encryption says "+says,
			"Say so with: "+c.command("set", "credentials.encryption", is)+"\nand seal it with: "+c.sealAgain())
	case is != says:
		c.file(gap, r, p, fmt.Sprintf("sealed with %s, but credentials.encryption says %s", is, says),
			"Set it with: "+c.command("set", "credentials.encryption", is))
	case is == vault.Age && keys == 0:
		c.file(gap, r, p, "sealed for nobody — no key opens it", r.fix)
	default:
		c.whole(r, p, sealed, is, keys)
	}
}

func (c *checker) sealAgain() string {
	return c.command("vault rekey", "--encryption", vault.Age, "--insecure-plaintext")
}

// whole reports a vault of the right form, and its credentials if it can be opened.
func (c *checker) whole(r reference, p string, sealed []byte, form string, keys int) {
	text := fmt.Sprintf("exists (%s), sealed with %s", size(int64(len(sealed))), form)
	if keys > 0 {
		text += " for " + plural(keys, "key", "keys")
	}
	if form == vault.Plaintext {
		c.file(strange, r, p, "NOT ENCRYPTED — whoever gets the bundle reads every password in it", "Seal it with: "+c.sealAgain())
	} else {
		c.file(fine, r, p, text, "")
	}
	state, err := c.open(sealed, form)
	if err != nil {
		c.file(strange, r, p, "could not be opened here: "+short(err.Error()), "")
		return
	}
	c.inside(r, state)
}

// open opens the vault if it is not encrypted, or with Options.Vault.
func (c *checker) open(sealed []byte, form string) (VaultState, error) {
	if form != vault.Plaintext {
		if c.o.Vault == nil {
			return VaultState{}, nil
		}
		return c.o.Vault(sealed, form)
	}
	v, err := vault.Parse(vault.NewSecret(sealed))
	if err != nil {
		return VaultState{}, err
	}
	return State(v, c.o.Now), nil
}

// State returns the state of an open vault at the time now.
func State(v *vault.Vault, now time.Time) VaultState {
	s := VaultState{Opened: true, Expired: v.Expired(now)}
	for _, one := range v.Credentials() {
		s.Names = append(s.Names, one.Name)
	}
	return s
}

// inside compares the credentials in an open vault with the scopes.
func (c *checker) inside(r reference, state VaultState) {
	if !state.Opened {
		return
	}
	for i, s := range c.m.Credentials().Scopes {
		w := Credential{s.Name, kindOr(s.Type)}
		if s.Name != "" && !slices.Contains(state.Names, s.Name) {
			c.add(gap, scopeField(i), fmt.Sprintf("credentials: %q is not in the vault — agent won't have %s", short(s.Name), access([]Credential{w})),
				"Add it with: "+c.addCredential(w))
			c.wants([]Credential{w})
		}
	}
	for _, name := range state.Expired {
		if !c.expiredScope(name) {
			c.expired(r.field, name, "", time.Time{})
		}
	}
}

func scopeField(i int) string { return fmt.Sprintf("credentials.scopes.%d", i) }

// scopes checks the description of each credential.
func (c *checker) scopes(scopes []nutshell.Scope) {
	names := make(map[string]bool)
	for i, s := range scopes {
		field := scopeField(i)
		switch {
		case blank(s.Name):
			c.add(strange, field, field+": has no name", "")
		case names[s.Name]:
			c.add(strange, field, fmt.Sprintf("credentials: two scopes are called %q", short(s.Name)), "")
		}
		names[s.Name] = true
		if blank(string(s.ExpiresAt)) {
			continue
		}
		t, err := moment(s.ExpiresAt)
		switch {
		case err != nil:
			c.add(strange, field, fmt.Sprintf("credentials: %q expires at %q, which is not a date", short(s.Name), short(string(s.ExpiresAt))), "")
		case c.past(t):
			c.expired(field, s.Name, s.Type, t)
		}
	}
}

// expired reports an expired credential. The time is zero if it is unknown.
func (c *checker) expired(field, name, kind string, at time.Time) {
	on := ""
	if !at.IsZero() {
		on = " on " + day(at)
	}
	text := fmt.Sprintf("credentials: %q expired%s — agent won't have %s", short(name), on, access([]Credential{{name, kind}}))
	words := append([]string{name}, option("expires", day(c.nextWeek()))...)
	c.add(outdated, field, text, "Renew it with: "+c.command("rotate", words...))
}

// expiredScope reports whether the manifest itself says that a credential has expired.
func (c *checker) expiredScope(name string) bool {
	return slices.ContainsFunc(c.m.Credentials().Scopes, func(s nutshell.Scope) bool {
		t, err := moment(s.ExpiresAt)
		return s.Name == name && err == nil && c.past(t)
	})
}
