package vault_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"guild/nutshell"
	"guild/nutshell/vault"
)

// specified is the vault of the specification's section 7, with members that it does not know.
const specified = `{
  "vault_version": "0.2.0",
  "created_at": "2026-03-14T10:00:00Z",
  "expires_at": "2026-03-21T10:00:00Z",
  "x-issuer": {"team": "blue", "n": 1.50},
  "credentials": [
    {
      "name": "staging-db",
      "type": "postgresql",
      "x-ticket": 1e3,
      "value": {"host": "staging-db.internal", "port": 5432, "password": "rotated-token-abc123"},
      "scopes": ["read", "write"],
      "restrictions": {"tables": ["users", "sessions"], "max_rows_per_query": 1000}
    },
    {
      "name": "api-token",
      "type": "bearer_token",
      "value": {"token": "sk-agent-scoped-xyz789"},
      "scopes": ["invoke"],
      "restrictions": {"endpoints": ["/api/v1/users*"], "rate_limit": "100/min"},
      "expires_at": "2026-03-18T00:00:00Z"
    }
  ]
}
`

func parse(t testing.TB, text string) *vault.Vault {
	t.Helper()
	v, err := vault.Parse(vault.NewSecret([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func text(v *vault.Vault) string { return string(v.Document().Reveal()) }

// secret is the value that a person gives.
func secret(s string) vault.Secret { return vault.ValueOf(vault.NewSecret([]byte(s))) }

func TestParse(t *testing.T) {
	v := parse(t, specified)
	c, ok := v.Credential("staging-db")
	if !ok || c.Type != "postgresql" || !slices.Equal(c.Scopes, []string{"read", "write"}) || len(v.Credentials()) != 2 {
		t.Fatalf("got %v", c)
	}
	if string(c.Restrictions) != `{"tables": ["users", "sessions"], "max_rows_per_query": 1000}` {
		t.Errorf("restrictions %s", c.Restrictions)
	}
	if password, ok := c.Field("password"); !ok || string(password.Reveal()) != "rotated-token-abc123" {
		t.Error("no password")
	}
	if port, ok := c.Field("port"); !ok || string(port.Reveal()) != "5432" {
		t.Error("no port")
	}
	if !slices.Equal(c.Fields(), []string{"host", "port", "password"}) {
		t.Errorf("fields %v", c.Fields())
	}
	if text(v) != specified {
		t.Error("reading changed the text")
	}
}

func TestExpiresAt(t *testing.T) {
	v := parse(t, specified)
	for name, want := range map[string]string{"staging-db": "2026-03-21T10:00:00Z", "api-token": "2026-03-18T00:00:00Z", "nobody": "2026-03-21T10:00:00Z"} {
		if got := v.ExpiresAt(name).Format(time.RFC3339); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if err := v.SetExpiry("2026-03-15T00:00:00Z"); err != nil || v.ExpiresAt("api-token").Day() != 15 {
		t.Errorf("the vault's own expiry does not win: %v", err)
	}
	if err := v.SetExpiry(""); err != nil || !v.ExpiresAt("staging-db").IsZero() {
		t.Errorf("still expires: %v", err)
	}
}

func TestExpired(t *testing.T) {
	v := parse(t, specified)
	for _, c := range []struct {
		now  string
		want []string
	}{
		{"2026-03-17T23:59:59Z", nil},
		{"2026-03-18T00:00:00Z", []string{"api-token"}},
		{"2026-03-21T10:00:00Z", []string{"staging-db", "api-token"}},
	} {
		now, _ := time.Parse(time.RFC3339, c.now)
		err := v.Current(now)
		if got := v.Expired(now); !slices.Equal(got, c.want) || errors.Is(err, vault.ErrExpired) != (len(c.want) > 0) {
			t.Errorf("at %s: %v, %v", c.now, got, err)
		}
		for _, name := range c.want {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%s is not in %q", name, err)
			}
		}
	}
}

func TestOnly(t *testing.T) {
	v := parse(t, strings.Replace(specified, `"team": "blue"`, `"team": "`+marker+`"`, 1))
	few, err := v.Only(march, "api-token")
	if err != nil {
		t.Fatal(err)
	}
	if len(few.Credentials()) != 1 || few.ExpiresAt("api-token") != v.ExpiresAt("api-token") || few.Expiry() != v.Expiry() {
		t.Errorf("got %v", few.Credentials())
	}
	if strings.Contains(text(few), "staging-db") || strings.Contains(text(few), marker) {
		t.Error("more than that was handed over")
	}
	if _, err := v.Only(march, "api-token", "nobody"); !errors.Is(err, vault.ErrNoEntry) {
		t.Errorf("a missing one: %v", err)
	}
	if _, err := v.Only(march.AddDate(0, 0, 5), "api-token"); !errors.Is(err, vault.ErrExpired) {
		t.Errorf("an expired one: %v", err)
	}
	if _, err := v.Only(march.AddDate(0, 0, 5), "staging-db"); err != nil {
		t.Errorf("one that is good, beside an expired one: %v", err)
	}
}

func TestPutKeepsUnknownMembers(t *testing.T) {
	v := parse(t, specified)
	c, _ := v.Credential("staging-db")
	c.Value = secret("new")
	if err := v.Put(c); err != nil {
		t.Fatal(err)
	}
	if err := v.Put(vault.Credential{Name: "third", Type: "secret", Value: secret(`{"a": 1.0}`)}); err != nil {
		t.Fatal(err)
	}
	if !v.Remove("api-token") || v.Remove("api-token") {
		t.Error("removed twice, or never")
	}
	for _, want := range []string{`"n": 1.50`, `"x-ticket": 1e3`, `"value": "new"`, `"a": 1.0`, `"max_rows_per_query": 1000`} {
		if !strings.Contains(text(v), want) {
			t.Errorf("%s is lost:\n%s", want, text(v))
		}
	}
	if strings.Index(text(v), "x-ticket") > strings.Index(text(v), `"value"`) {
		t.Error("the order of members changed")
	}
	if again := parse(t, text(v)); text(again) != text(v) || len(again.Credentials()) != 2 {
		t.Error("not the same again")
	}
}

func TestPutInvalidEntry(t *testing.T) {
	for name, c := range map[string]vault.Credential{
		"no name":          {Value: secret("x")},
		"a long name":      {Name: strings.Repeat("n", 129), Value: secret("x")},
		"two lines":        {Name: "a\nb", Value: secret("x")},
		"a reversed name":  {Name: "a\u202eb", Value: secret("x")},
		"no value":         {Name: "a"},
		"half a value":     {Name: "a", Value: vault.NewSecret([]byte(`{"a"`))},
		"two values":       {Name: "a", Value: vault.NewSecret([]byte(`{},"b":{}`))},
		"a number":         {Name: "a", Value: vault.NewSecret([]byte(`1`))},
		"no time":          {Name: "a", Value: secret("x"), ExpiresAt: "tomorrow"},
		"odd restrictions": {Name: "a", Value: secret("x"), Restrictions: json.RawMessage(`[1]`)},
	} {
		v := vault.New(march)
		before := text(v)
		if err := v.Put(c); err == nil {
			t.Errorf("%s was put: %s", name, text(v))
		}
		if text(v) != before {
			t.Errorf("%s changed the vault", name)
		}
	}
}

func TestParseErrors(t *testing.T) {
	entry := func(members string) string { return `{"vault_version":"0.2.0","credentials":[{` + members + `}]}` }
	for name, c := range map[string]struct{ text, says string }{
		"nothing":             {"", "vault: is not a JSON object"},
		"an array":            {`["` + marker + `"]`, "vault: is not a JSON object"},
		"a comment":           {"{\n// " + marker + "\n}", "vault: is not JSON (line 2)"},
		"no end":              {`{"vault_version":"0.2.0","x":"` + marker, "vault: is not JSON (line 1)"},
		"a bare word":         {"{\n\"a\": " + marker + "\n}", "vault: is not JSON (line 2)"},
		"a key twice":         {`{"` + marker + `":1,"` + marker + `":2}`, "vault: has the same name twice (line 1)"},
		"more after it":       {`{} ` + marker, "vault: has bytes after the end of the object"},
		"a byte order mark":   {"\ufeff{}", "vault: is not a JSON object"},
		"no version":          {`{"x":"` + marker + `"}`, "vault: vault_version: is not 0.x"},
		"a later version":     {`{"vault_version":"` + marker + `"}`, "vault: vault_version: is not 0.x"},
		"no time":             {`{"vault_version":"0.2.0","expires_at":"` + marker + `"}`, "vault: expires_at: is not a time in RFC 3339"},
		"an entry's no time":  {entry(`"name":"a","value":"b","expires_at":"` + marker + `"`), "vault: credentials.0.expires_at: is not a time in RFC 3339"},
		"no name":             {entry(`"value":"` + marker + `"`), "vault: credentials.0.name: must be"},
		"no value":            {entry(`"name":"a","token":"` + marker + `"`), "vault: credentials.0.value: must be a JSON object or string"},
		"a number as value":   {entry(`"name":"a","value":42`), "vault: credentials.0.value: must be a JSON object or string"},
		"scopes that are one": {entry(`"name":"a","value":"b","scopes":"` + marker + `"`), "vault: credentials.0.scopes: is of the wrong type"},
		"odd restrictions":    {entry(`"name":"a","value":"b","restrictions":"` + marker + `"`), "vault: credentials.0.restrictions: must be a JSON object"},
		"a name twice":        {`{"vault_version":"0.2.0","credentials":[{"name":"` + marker + `","value":"b"},{"name":"` + marker + `","value":"c"}]}`, "vault: credentials.1.name: duplicate name"},
		"an object of them":   {`{"vault_version":"0.2.0","credentials":{"` + marker + `":1}}`, "vault: credentials: is of the wrong type"},
		"not UTF-8":           {"{\"vault_version\":\"0.2.0\",\"x\":\"" + marker + "\xff\"}", "vault: is not JSON (line 1)"},
		"too deep":            {`{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}", `"vault": more than the limit of 32`},
		"too large":           {`{"a":"` + strings.Repeat(marker, 60_000) + `"}`, `"vault": more than the limit of 1048576`},
		"too many":            {`{"vault_version":"0.2.0","credentials":[` + many(1001) + `]}`, "more than the limit of 1000"},
	} {
		_, err := vault.Parse(vault.NewSecret([]byte(c.text)))
		if err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		refuse(t, name, fmt.Sprintf("%v %+v %#v", err, err, err))
	}
}

// many is so many entries.
func many(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"name":"n%d","value":""}`, i))
	}
	return strings.Join(all, ",")
}

func TestThousandCredentials(t *testing.T) {
	v := parse(t, `{"vault_version":"0.2.0","credentials":[`+many(1000)+`]}`)
	if err := v.Put(vault.Credential{Name: "one more", Value: secret("x")}); err == nil {
		t.Error("one more was put")
	}
}

func TestValueOf(t *testing.T) {
	for input, want := range map[string]string{
		"hunter2": `"hunter2"`, ` {"a": 1.0} `: `{"a": 1.0}`, `{"a": 1`: `"{\"a\": 1"`, `["a"]`: `"[\"a\"]"`, "42": `"42"`,
		"postgres://u:p@h/db": `"postgres://u:p@h/db"`, `{"a":1,"a":2}`: `"{\"a\":1,\"a\":2}"`, "two\nlines": `"two\nlines"`,
	} {
		value := secret(input)
		if string(value.Reveal()) != want {
			t.Errorf("%q became %s", input, value.Reveal())
		}
		v := vault.New(march)
		if err := v.Put(vault.Credential{Name: "x", Value: value}); err != nil {
			t.Errorf("%q: %v", input, err)
		}
	}
}

func TestField(t *testing.T) {
	for _, c := range []struct {
		value, field, want string
		ok                 bool
	}{
		{`"a\tb"`, "", "a\tb", true}, {`"a"`, "x", "", false}, {`{"t": "v"}`, "", "v", true}, {`{"t": "v"}`, "t", "v", true},
		{`{"t": {"u": 1}}`, "t", `{"u": 1}`, true}, {`{"a": 1, "b": 2}`, "", "", false}, {`{"a": 1}`, "b", "", false}, {`{}`, "", "", false},
	} {
		got, ok := vault.Credential{Value: vault.NewSecret([]byte(c.value))}.Field(c.field)
		if ok != c.ok || ok && string(got.Reveal()) != c.want {
			t.Errorf("%s, %q: %q, %v", c.value, c.field, got.Reveal(), ok)
		}
	}
}

// manifest is a bundle that needs two credentials, one of which its vault lacks.
const manifest = `{
  "nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-1", "task": {"title": "x"},
  "credentials": {
    "note": "keep me",
    "scopes": [
      {"name": "later", "type": "ssh", "x-why": 1.0},
      {"name": "staging-db", "x-why": 2.0, "rate_limit": "1/s"},
      {"name": "gone"}
    ]
  }
}`

func TestAnnounce(t *testing.T) {
	m, err := nutshell.ParseManifest([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	v := parse(t, specified)
	err = vault.Announce(m, v, vault.Placement{Form: vault.Age, Recipients: []string{"age1x"}, Removed: []string{"gone"}})
	if err != nil {
		t.Fatal(err)
	}
	c := m.Credentials()
	want := []nutshell.Scope{
		{Name: "later", Type: "ssh"},
		{Name: "staging-db", Type: "postgresql", AccessLevel: "read-write", ExpiresAt: "2026-03-21T10:00:00Z"},
		{Name: "api-token", Type: "bearer_token", AccessLevel: "invoke", RateLimit: "100/min", ExpiresAt: "2026-03-18T00:00:00Z"},
	}
	if !slices.Equal(c.Scopes, want) || c.Vault != vault.File || c.Encryption != "age" || !slices.Equal(c.Recipients, []string{"age1x"}) {
		t.Errorf("got %+v", c)
	}
	for _, kept := range []string{`"note": "keep me"`, `"x-why": 1.0`, `"x-why": 2.0`} {
		if !bytes.Contains(m.Bytes(), []byte(kept)) {
			t.Errorf("%s is lost:\n%s", kept, m.Bytes())
		}
	}
	for _, value := range []string{"rotated-token", "xyz789", "staging-db.internal"} {
		if bytes.Contains(m.Bytes(), []byte(value)) {
			t.Errorf("%s is in the manifest", value)
		}
	}
	if err := vault.Promise(m, "2027-01-01T00:00:00Z", "later"); err != nil || m.Credentials().Scopes[0].ExpiresAt != "2027-01-01T00:00:00Z" {
		t.Errorf("promised %v, %v", m.Credentials().Scopes[0], err)
	}
}

func TestAccessLevel(t *testing.T) {
	for _, c := range []struct {
		scopes []string
		want   string
	}{
		{nil, ""}, {[]string{"read"}, "read"}, {[]string{"write", "read"}, "read-write"}, {[]string{"invoke"}, "invoke"}, {[]string{"admin", "read"}, "read-admin"},
	} {
		v := vault.New(march)
		if err := v.Put(vault.Credential{Name: "x", Value: secret("x"), Scopes: c.scopes}); err != nil {
			t.Fatal(err)
		}
		if got := v.Scopes()[0].AccessLevel; got != c.want {
			t.Errorf("%v: %q", c.scopes, got)
		}
	}
}

// credential draws any credential that a vault can hold.
func credential(t *rapid.T, name string) vault.Credential {
	c := vault.Credential{
		Name: name, Type: rapid.StringMatching(`[a-z_]{0,10}`).Draw(t, "type"),
		Value:  vault.ValueOf(vault.NewSecret([]byte(rapid.String().Draw(t, "value")))),
		Scopes: rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,5}`), 0, 3).Draw(t, "scopes"),
	}
	if rapid.Bool().Draw(t, "expires") {
		c.ExpiresAt = "2026-03-18T00:00:00Z"
	}
	if rapid.Bool().Draw(t, "restricted") {
		c.Restrictions = json.RawMessage(`{"n": 1.0}`)
	}
	return c
}

func TestPutAndRemove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, err := vault.Parse(vault.NewSecret([]byte(specified)))
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"staging-db", "api-token", "c", "d"}
		want := map[string]vault.Credential{}
		for _, c := range v.Credentials() {
			want[c.Name] = c
		}
		for range rapid.IntRange(0, 6).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			if rapid.Bool().Draw(t, "put") {
				want[name] = credential(t, name)
				if err := v.Put(want[name]); err != nil {
					t.Fatal(err)
				}
				continue
			}
			_, there := want[name]
			if v.Remove(name) != there {
				t.Fatal("removed what is not there, or did not")
			}
			delete(want, name)
		}
		again, err := vault.Parse(v.Document())
		if err != nil || len(again.Credentials()) != len(want) {
			t.Fatalf("%d credentials, want %d: %v", len(again.Credentials()), len(want), err)
		}
		for _, c := range again.Credentials() {
			if !same(c, want[c.Name]) {
				t.Fatalf("%v became %v", want[c.Name], c)
			}
		}
		if !strings.Contains(text(again), `"n": 1.50`) {
			t.Fatal("an unknown member is lost")
		}
	})
}

func same(a, b vault.Credential) bool {
	return a.Name == b.Name && a.Type == b.Type && bytes.Equal(a.Value.Reveal(), b.Value.Reveal()) && slices.Equal(a.Scopes, b.Scopes) &&
		bytes.Equal(squeezed(a.Restrictions), squeezed(b.Restrictions)) && a.ExpiresAt == b.ExpiresAt
}

// squeezed is JSON without white space.
func squeezed(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if len(raw) > 0 && json.Compact(&b, raw) != nil {
		return nil
	}
	return b.Bytes()
}

func TestMarkUsed(t *testing.T) {
	used := []vault.Used{{"staging-db", march}, {"api-token", march.Add(time.Hour)}}
	for name, c := range map[string]struct{ result, has string }{
		"no result":     {"", `{"name":"staging-db","opened_at":"2026-03-14T10:00:00Z"},{"name":"api-token","opened_at":"2026-03-14T11:00:00Z"}`},
		"a result":      {`{"status": "completed", "n": 1.0}`, `"n": 1.0`},
		"a log":         {`{"status": "completed", "execution_log": {"x": 1.0}}`, `"x": 1.0`},
		"a name there":  {`{"status": "completed", "execution_log": {"credentials_used": ["ci", {"name": "y"}]}}`, `["ci",{"name": "y"},{"name":"staging-db"`},
		"null in place": {`{"status": "completed", "execution_log": null}`, `"staging-db"`},
	} {
		marked, err := vault.MarkUsed([]byte(c.result), used)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		flat := strings.NewReplacer("\n", "", "  ", "").Replace(string(marked))
		if !strings.Contains(flat, c.has) {
			t.Errorf("%s: %s", name, flat)
		}
		again, err := vault.MarkUsed(marked, used)
		if err != nil || !bytes.Equal(again, marked) {
			t.Errorf("%s: marked twice: %s, %v", name, again, err)
		}
	}
	for name, result := range map[string]string{"words": "done", "an odd log": `{"execution_log": 1}`, "an odd list": `{"execution_log": {"credentials_used": "x"}}`} {
		if _, err := vault.MarkUsed([]byte(result), used); err == nil {
			t.Errorf("%s: marked", name)
		}
	}
	if same, err := vault.MarkUsed([]byte("as it was"), nil); err != nil || string(same) != "as it was" {
		t.Error("nothing was used, and the result changed")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(specified))
	f.Add([]byte(`{"vault_version":"0.2.0","credentials":[{"name":"a","value":"b"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := vault.Parse(vault.NewSecret(raw))
		if err != nil {
			return
		}
		before := len(v.Credentials())
		if err := v.Put(vault.Credential{Name: "fuzz", Value: secret("x")}); err != nil {
			return // full, or too large
		}
		again, err := vault.Parse(v.Document())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := again.Credential("fuzz"); !ok || len(again.Credentials()) < before {
			t.Error("an entry is lost")
		}
		for _, c := range again.Credentials() {
			if err := again.Put(c); err != nil {
				t.Errorf("%s cannot be put again: %v", c.Name, err)
			}
		}
	})
}

func FuzzMarkUsed(f *testing.F) {
	f.Add([]byte(`{"status": "completed", "execution_log": {"credentials_used": ["ci"]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		marked, err := vault.MarkUsed(raw, []vault.Used{{"x", march}})
		if err != nil {
			return
		}
		again, err := vault.MarkUsed(marked, []vault.Used{{"x", march}})
		if err != nil || !bytes.Equal(again, marked) {
			t.Errorf("marked twice: %v", err)
		}
	})
}
