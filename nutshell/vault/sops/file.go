package sops

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell/vault"
)

// file has the parts of a sealed file that can be read without opening it.
type file struct {
	binary bool     // the document is one string
	data   string   // of a binary one: that string, encrypted
	vaults []string // addresses of the HashiCorp Vaults that it names
}

// object is a JSON object. Names are compared without case, because sops may read them so.
type object map[string]jsontext.Value

// parse reads sops's metadata of a sealed file. The error is vault.ErrNotSealed if there is none.
func parse(sealed []byte) (file, error) {
	var all object
	if err := json.Unmarshal(sealed, &all); err != nil {
		return file{}, fmt.Errorf("%w: it is not a JSON object", vault.ErrNotSealed)
	}
	metadata, ok := all["sops"]
	if !ok || len(all.named("sops")) != 1 {
		return file{}, fmt.Errorf("%w: sops has left no metadata in it", vault.ErrNotSealed)
	}
	var keys object
	if err := json.Unmarshal(metadata, &keys); err != nil || keys == nil {
		return file{}, fmt.Errorf("%w: its metadata is not a JSON object", vault.ErrNotSealed)
	}
	f := file{binary: len(all) == 2}
	if err := json.Unmarshal(all["data"], &f.data); err != nil {
		f.binary = false
	}
	var err error
	f.vaults, err = addresses(keys)
	return f, err
}

// named returns the members of that name, whatever their case.
func (o object) named(name string) []jsontext.Value {
	var all []jsontext.Value
	for n, v := range o {
		if strings.EqualFold(n, name) {
			all = append(all, v)
		}
	}
	return all
}

// addresses finds the HashiCorp Vaults among the keys and the groups of keys.
func addresses(keys object) ([]string, error) {
	groups, err := keys.lists("key_groups")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, group := range groups {
		more, err := addresses(group)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	servers, err := keys.lists("hc_vault")
	if err != nil {
		return nil, err
	}
	for _, server := range servers {
		for _, v := range server.named("vault_address") {
			var address string
			if err := json.Unmarshal(v, &address); err != nil {
				return nil, fmt.Errorf("%w: a vault_address is not a string", vault.ErrNotSealed)
			}
			found = append(found, address)
		}
	}
	return found, nil
}

// lists returns the elements of the lists of objects of that name, whatever its case.
func (o object) lists(name string) ([]object, error) {
	var all []object
	for _, v := range o.named(name) {
		var some []object
		if err := json.Unmarshal(v, &some); err != nil {
			return nil, fmt.Errorf("%w: its %s is not a list of objects", vault.ErrNotSealed, name)
		}
		all = append(all, some...)
	}
	return all, nil
}

// check refuses a file that would make sops send the person's token to a server that the person has not named.
func (f file) check(allowed []string) error {
	if slices.Contains(allowed, "all") {
		return nil
	}
	for _, address := range f.vaults {
		if !slices.ContainsFunc(allowed, func(a string) bool { return sameServer(a, address) }) {
			return &ForeignServerError{address}
		}
	}
	return nil
}

func sameServer(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && x.Host != "" && x.User == nil && y.User == nil &&
		strings.EqualFold(x.Scheme, y.Scheme) && strings.EqualFold(x.Host, y.Host)
}

// SealedFor returns for whom a sealed file is, as its metadata says: an age recipient as it is, other keys with their kind.
// The error is vault.ErrNotSealed.
func SealedFor(sealed []byte) ([]string, error) {
	var all object
	if _, err := parse(sealed); err != nil {
		return nil, err
	}
	var metadata object
	if err := json.Unmarshal(sealed, &all); err != nil {
		return nil, vault.ErrNotSealed
	}
	if err := json.Unmarshal(all["sops"], &metadata); err != nil {
		return nil, vault.ErrNotSealed
	}
	return metadata.recipients()
}

// recipients lists the keys in the metadata and in its groups of keys.
func (o object) recipients() ([]string, error) {
	var all []string
	for _, kind := range []struct{ list, name, shown string }{
		{"age", "recipient", ""}, {"pgp", "fp", "pgp "}, {"kms", "arn", "kms "}, {"gcp_kms", "resource_id", "gcp_kms "},
		{"azure_kv", "vault_url", "azure_kv "}, {"hc_vault", "vault_address", "hc_vault "},
	} {
		keys, err := o.lists(kind.list)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			var name string
			if json.Unmarshal(key[kind.name], &name) == nil && name != "" {
				all = append(all, kind.shown+name)
			}
		}
	}
	groups, err := o.lists("key_groups")
	for _, group := range groups {
		more, failed := group.recipients()
		if failed != nil {
			return nil, failed
		}
		all = append(all, more...)
	}
	return all, err
}
