package nutshell

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// EndpointsFile is the usual path of the description of a bundle's APIs. The manifest's apis.endpoints_spec has the
// actual one.
const EndpointsFile = "apis/endpoints.json"

// Endpoints describe the calls that a task may make (section 8 of the specification). Raw is the whole document,
// with the fields that this package does not know.
type Endpoints struct {
	Version   string          `json:"api_version" about:"Version of the specification that the document follows."`
	BaseURL   string          `json:"base_url" about:"The address that the paths are appended to."`
	Auth      Auth            `json:"auth" about:"How calls are authorised."`
	Endpoints []Endpoint      `json:"endpoints" about:"The calls."`
	Raw       json.RawMessage `json:"-"`
}

// Auth says how calls are authorised, and by which entry of the vault.
type Auth struct {
	Type          string `json:"type" examples:"bearer_token api_key oauth2 basic none" about:"The method."`
	CredentialRef string `json:"credential_ref" about:"The name of the credential in the vault."`
}

// Endpoint is one call. Its schemas are files, relative to the folder of the document.
type Endpoint struct {
	Method         string           `json:"method" examples:"GET POST PUT PATCH DELETE HEAD OPTIONS" about:"The HTTP method."`
	Path           string           `json:"path" about:"The path of the URL."`
	Description    string           `json:"description" about:"What the call does."`
	Params         map[string]Param `json:"params" about:"Parameters by name."`
	BodySchema     string           `json:"body_schema" about:"The file with the schema of the request's body, relative to this document."`
	ResponseSchema string           `json:"response_schema" about:"The file with the schema of the answer, relative to this document."`
}

// Param is a parameter of a call. What Default is depends on the type.
type Param struct {
	Type        string          `json:"type" examples:"string integer number boolean array object" about:"The JSON type of the parameter."`
	Description string          `json:"description" about:"What the parameter means."`
	Required    bool            `json:"required" about:"The call needs it."`
	Default     json.RawMessage `json:"default" about:"What it is if it is left out."`
	Min         *float64        `json:"min" about:"The least that it may be."`
	Max         *float64        `json:"max" about:"The most that it may be."`
}

// Reference is a file that a document of a bundle points to.
type Reference struct {
	Field string // the dotted path of the member that points to it
	Path  string // of the file, within the bundle
}

// ParseEndpoints reads an endpoints.json. Its errors are those of ParseManifest.
func ParseEndpoints(b []byte) (*Endpoints, error) {
	text, err := parseDocument(EndpointsFile, b)
	if err != nil {
		return nil, err
	}
	e := &Endpoints{Raw: text.raw}
	return e, text.decode(e)
}

// References lists the schemas that are files of the bundle, in their order, without those on the web and within the
// document. file is the path of the document, EndpointsFile if it is empty. A schema whose path cannot be in a bundle
// is a *ManifestError.
func (e *Endpoints) References(file string) ([]Reference, error) {
	file = cmp.Or(file, EndpointsFile)
	var all []Reference
	for i, one := range e.Endpoints {
		for _, schema := range []struct{ member, ref string }{{"body_schema", one.BodySchema}, {"response_schema", one.ResponseSchema}} {
			field := fmt.Sprintf("endpoints.%d.%s", i, schema.member)
			p, reason := within(path.Dir(file), schema.ref)
			if reason != "" {
				return nil, &ManifestError{file, field, fmt.Sprintf("%.80q: %s", schema.ref, reason)}
			}
			if p != "" {
				all = append(all, Reference{field, p})
			}
		}
	}
	return all, nil
}

// within resolves a reference against a folder of the bundle. The path is empty if the reference is to the web or into
// the document itself; reason is set if the path cannot be in a bundle.
func within(dir, ref string) (p, reason string) {
	ref, _, _ = strings.Cut(ref, "#")
	if ref == "" || strings.Contains(ref, "://") {
		return "", ""
	}
	if path.IsAbs(ref) {
		return "", "the path is absolute"
	}
	p = path.Join(dir, ref)
	return p, unsafePath(p)
}
