// Package schema is the JSON Schemas (draft 2020-12) of the documents in a bundle: nutshell.json,
// delivery/result.json, apis/endpoints.json, tests/criteria.json and the open vault. They are generated from the Go
// types that read the documents, so that the two cannot come apart; only the descriptions are written by hand.
//
// A schema refuses what the reader refuses, and no more. Unknown members are allowed everywhere, because bundles keep
// them; null stands for a member that is absent; nothing is required but what the specification requires, and the
// status of a result. Where the specification lists values, another one is only worth a warning: such a member is
// anyOf an enum, from which editors complete, and any text. The status of a result is an enum and nothing else. What
// a schema cannot say is left to the reader: duplicate keys, ids that stand there twice, and the bounds of size and
// depth. Times have the format date-time, which the standard takes as a note unless a validator is told otherwise.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"guild/nutshell"
)

// Names of the documents.
const (
	Manifest  = "manifest"
	Result    = "result"
	Endpoints = "endpoints"
	Criteria  = "criteria"
	Vault     = "vault"
)

// ErrUnknown is a document that has no schema.
var ErrUnknown = errors.New("there is no such schema")

// document is what the schema of a document is made of.
type document struct {
	name, title string
	about       string
	file        string // for nutshell.Values; empty if the specification lists none
	of          reflect.Type
	texts       []text
	finish      func(*node) // adds what the types do not say
}

func documents() []document {
	return []document{
		{Manifest, "Nutshell manifest", "nutshell.json, the entry point of a bundle (section 3).",
			nutshell.ManifestFile, reflect.TypeFor[nutshell.Sections](), manifestTexts(), finishManifest},
		{Result, "Nutshell result", "delivery/result.json, what came of a task (section 5).",
			nutshell.ResultFile, reflect.TypeFor[nutshell.Result](), resultTexts(), finishResult},
		{Endpoints, "Nutshell endpoints", "apis/endpoints.json, the calls that a task may make (section 8).",
			nutshell.EndpointsFile, reflect.TypeFor[nutshell.Endpoints](), endpointsTexts(), func(*node) {}},
		{Criteria, "Nutshell acceptance criteria", "tests/criteria.json, machine-readable acceptance tests (section 9).",
			nutshell.CriteriaFile, reflect.TypeFor[nutshell.Criteria](), criteriaTexts(), func(*node) {}},
		{Vault, "Nutshell vault, open", "The document in credentials/vault.enc.json, once it is decrypted (section 7). Never keep it in clear.",
			"", reflect.TypeFor[vault](), vaultTexts(), finishVault},
	}
}

// Names lists the documents that have a schema.
func Names() []string {
	var names []string
	for _, d := range documents() {
		names = append(names, d.name)
	}
	return names
}

// Of returns the schema of a document, as JSON laid out for people that ends with a newline. The same version gives
// the same bytes. It is ErrUnknown if the name is none of Names.
func Of(name string) ([]byte, error) {
	all := documents()
	i := slices.IndexFunc(all, func(d document) bool { return d.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%.40q: %w", name, ErrUnknown)
	}
	b, err := json.MarshalIndent(all[i].schema(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("the schema %s: %w", name, err)
	}
	return append(b, '\n'), nil
}

// schema is the root of the schema.
func (d document) schema() *node {
	root := d.object("", d.of)
	root.Draft = "https://json-schema.org/draft/2020-12/schema"
	root.ID = "urn:nutshell:" + nutshell.Version + ":" + d.name
	root.Title, root.Description = d.title, d.about
	root.Type = types{"object"}
	d.finish(root)
	return root
}

// finishManifest adds what nutshell.Manifest.Validate asks for.
func finishManifest(root *node) {
	root.Required = []string{"nutshell_version", "bundle_type", "id"}
	version, id := root.at("nutshell_version"), root.at("id")
	version.Type, version.Pattern = types{"string"}, nutshell.VersionPattern
	id.Type, id.Pattern = types{"string"}, nutshell.IDPattern
	some := root.at("bundle_type").AnyOf
	some[len(some)-1] = &node{Type: types{"string"}, MinLength: 1}

	root.If = &node{Required: []string{"bundle_type"}, Properties: properties{{"bundle_type", &node{Const: nutshell.TypeDelivery}}}}
	root.Else = &node{Required: []string{"task"}, Properties: properties{{"task", &node{Type: types{"object"}, Required: []string{"title"}}}}}
}

// finishResult adds what nutshell.ParseResult asks for.
func finishResult(root *node) {
	root.Required = []string{"status"}
	status := root.at("status")
	status.AnyOf, status.Type = nil, types{"string"}
	status.Enum = nutshell.Values(nutshell.ResultFile, "status")
}

// finishVault adds what a vault cannot do without.
func finishVault(root *node) {
	root.Required = []string{"vault_version"}
	version := root.at("vault_version")
	version.Type, version.Pattern = types{"string"}, `^0\.`
	one := root.at("credentials").Items
	one.Type, one.Required = types{"object"}, []string{"name", "value"}
	name, value, restrictions := one.at("name"), one.at("value"), one.at("restrictions")
	name.Type, name.MinLength = types{"string"}, 1
	value.Type, restrictions.Type = types{"object", "string"}, types{"object", "null"}
}
