package nutshell_test

import (
	"fmt"
	"log"
	"slices"
	"testing"

	"guild/nutshell"
)

// ofTheSpecification is the example of section 8.
const ofTheSpecification = `{
  "api_version": "0.2.0",
  "base_url": "https://api-staging.example.com",
  "auth": {"type": "bearer_token", "credential_ref": "api-token"},
  "endpoints": [
    {"method": "GET", "path": "/api/v1/users", "description": "List all users with pagination",
     "params": {"page": {"type": "integer", "default": 1}, "per_page": {"type": "integer", "default": 20, "max": 100}},
     "response_schema": "schemas/user_list.json"},
    {"method": "POST", "path": "/api/v1/users", "description": "Create a new user", "body_schema": "schemas/user_create.json"}
  ]
}`

func ExampleParseEndpoints() {
	e, err := nutshell.ParseEndpoints([]byte(ofTheSpecification))
	if err != nil {
		log.Fatal(err)
	}
	for _, one := range e.Endpoints {
		fmt.Println(one.Method, e.BaseURL+one.Path)
	}
	refs, err := e.References(nutshell.EndpointsFile)
	if err != nil {
		log.Fatal(err)
	}
	for _, ref := range refs {
		fmt.Println(ref.Field, ref.Path)
	}
	// Output:
	// GET https://api-staging.example.com/api/v1/users
	// POST https://api-staging.example.com/api/v1/users
	// endpoints.0.response_schema apis/schemas/user_list.json
	// endpoints.1.body_schema apis/schemas/user_create.json
}

func TestEndpointsAreReadWhole(t *testing.T) {
	e, err := nutshell.ParseEndpoints([]byte(ofTheSpecification))
	if err != nil {
		t.Fatal(err)
	}
	p := e.Endpoints[0].Params["per_page"]
	if e.Auth.Type != "bearer_token" || e.Auth.CredentialRef != "api-token" || p.Type != "integer" || string(p.Default) != "20" ||
		p.Min != nil || *p.Max != 100 || string(e.Raw) != ofTheSpecification {
		t.Errorf("%+v", e)
	}
	if _, err := nutshell.ParseEndpoints(readTestdata(t, "reference/src/full-request/apis/endpoints.json")); err != nil {
		t.Error(err)
	}
}

func TestSchemaReferences(t *testing.T) {
	table := []struct {
		file, ref string
		want      []nutshell.Reference
		err       func(error) bool
	}{
		{"", "schemas/a.json", []nutshell.Reference{{"endpoints.0.body_schema", "apis/schemas/a.json"}}, opens},
		{"", "./a.json#/definitions/User", []nutshell.Reference{{"endpoints.0.body_schema", "apis/a.json"}}, opens},
		{"", "../files/a.json", []nutshell.Reference{{"endpoints.0.body_schema", "files/a.json"}}, opens},
		{"docs/api/v1.json", "../../a.json", []nutshell.Reference{{"endpoints.0.body_schema", "a.json"}}, opens},
		{"", "#/definitions/User", nil, opens},
		{"", "https://example.com/user.json", nil, opens},
		{"", "../../a.json", nil, manifestError("endpoints.0.body_schema", "..")},
		{"", "/etc/passwd", nil, manifestError("endpoints.0.body_schema", "absolute")},
		{"", `a\\b`, nil, manifestError("endpoints.0.body_schema", "backslash")},
	}
	for _, row := range table {
		e, err := nutshell.ParseEndpoints([]byte(`{"endpoints":[{"body_schema":"` + row.ref + `"}]}`))
		if err != nil {
			t.Errorf("%s: %v", row.ref, err)
			continue
		}
		if got, err := e.References(row.file); !row.err(err) || !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, %v", row.ref, got, err)
		}
	}
}

func TestEndpointErrors(t *testing.T) {
	for text, want := range map[string]func(error) bool{
		`[]`:                           manifestError("", "object"),
		`{"endpoints":{}}`:             manifestError("endpoints", "object"),
		`{"endpoints":[{"method":1}]}`: manifestError("endpoints.0.method", "number"),
		`{"endpoints":[{"params":{"a.b":{"max":""}}}]}`: manifestError(`endpoints.0.params."a.b".max`, "string"),
		`{"endpoints":null,"auth":null}`:                opens,
		`{"x_future":{"auth":{"type":1}}}`:              opens,
	} {
		if _, err := nutshell.ParseEndpoints([]byte(text)); !want(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
