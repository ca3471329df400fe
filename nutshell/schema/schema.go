// Package schema makes the JSON Schemas (draft 2020-12) of the documents in a bundle: nutshell.json,
// delivery/result.json, apis/endpoints.json, tests/criteria.json and the open vault. They are made from the
// tables of the fields that package nutshell reads the documents with, so that the two cannot come apart.
//
// A schema refuses what the reader refuses, and no more. Unknown members are allowed everywhere, because bundles keep
// them; null means an absent member; only what the specification requires is required, and the status of a result.
// Where the specification lists values, another one is only worth a warning: such a member is
// anyOf an enum, from which editors complete, and any text. The status of a result is an enum and nothing else. What
// a schema cannot say is left to the reader: duplicate names, duplicate ids, and the bounds of size and depth. Times have
// the format date-time, which validators ignore by default.
//
// The strict schema of the same document is for editors: it also refuses what the reader only warns of, which is a value that
// the specification does not list, a share beyond its bounds, and a number of things below zero.
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

// ErrUnknown is returned for a document that has no schema.
var ErrUnknown = errors.New("there is no such schema")

// document describes a document that has a schema.
type document struct {
	name, title string
	about       string
	table       *nutshell.Field
	finish      func(root *node) // adds what the table does not say; may be nil
}

func documents() []document {
	return []document{
		{
			name: Manifest, title: "Nutshell manifest", about: "nutshell.json, the entry point of a bundle (section 3).",
			table: nutshell.Describe(reflect.TypeFor[nutshell.Sections]()), finish: finishManifest,
		},
		{
			name: Result, title: "Nutshell result", about: "delivery/result.json, what came of a task (section 5).",
			table: nutshell.Describe(reflect.TypeFor[nutshell.Result]()),
		},
		{
			name: Endpoints, title: "Nutshell endpoints", about: "apis/endpoints.json, the calls that a task may make (section 8).",
			table: nutshell.Describe(reflect.TypeFor[nutshell.Endpoints]()), finish: finishEndpoints,
		},
		{
			name: Criteria, title: "Nutshell acceptance criteria", about: "tests/criteria.json, machine-readable acceptance tests (section 9).",
			table: nutshell.Describe(reflect.TypeFor[nutshell.Criteria]()), finish: finishCriteria,
		},
		{
			name: Vault, title: "Nutshell vault, open",
			about: "The document in credentials/vault.enc.json, once it is decrypted (section 7). Never keep it in clear.",
			table: nutshell.Describe(reflect.TypeFor[vault]()), finish: finishVault,
		},
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

// Of returns the schema of a document as indented JSON that ends with a newline. The same version gives the same bytes.
// It is ErrUnknown if the name is not one of Names.
func Of(name string) ([]byte, error) { return schemaOf(name, false) }

// Strict returns the strict schema of a document, as Of does.
func Strict(name string) ([]byte, error) { return schemaOf(name, true) }

func schemaOf(name string, strict bool) ([]byte, error) {
	all := documents()
	i := slices.IndexFunc(all, func(d document) bool { return d.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%.40q: %w", name, ErrUnknown)
	}
	d := all[i]
	root := reading{strict}.of(d.table)
	root.Draft = "https://json-schema.org/draft/2020-12/schema"
	root.ID = "urn:nutshell:" + nutshell.Version + ":" + d.name
	if strict {
		root.ID += ":strict"
	}
	root.Title, root.Description = d.title, d.about
	root.Type = types{"object"}
	if d.finish != nil {
		d.finish(root)
	}
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("the schema %s: %w", name, err)
	}
	return append(b, '\n'), nil
}

// finishManifest requires a title, except of a delivery.
func finishManifest(root *node) {
	root.If = &node{Required: []string{"bundle_type"}, Properties: properties{{"bundle_type", &node{Const: nutshell.TypeDelivery}}}}
	root.Else = &node{Required: []string{"task"}, Properties: properties{{"task", &node{Type: types{"object"}, Required: []string{"title"}}}}}
}
