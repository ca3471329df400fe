package config

import (
	"reflect"

	"guild"
)

// unknownKey is a key of the config file for which the configuration has no field.
type unknownKey struct {
	prefix, name string
	table        reflect.Type // where it stands
}

func (k unknownKey) key() string { return k.prefix + k.name }

// nearest returns the known key of the same table that is likely meant, or "".
func (k unknownKey) nearest() string {
	if near := guild.Nearest(k.name, names(k.table)); near != "" {
		return k.prefix + near
	}
	return ""
}

// names returns the keys of a table. It returns none if the type is not that of a table.
func names(table reflect.Type) []string {
	if table.Kind() != reflect.Struct {
		return nil
	}
	var all []string
	for f := range table.Fields() {
		if name := f.Tag.Get("koanf"); name != "-" {
			all = append(all, name)
		}
	}
	return all
}

// listFor returns the top-level list with this name or a similar one, or "".
func listFor(name string) string {
	var lists []string
	for f := range typeOfConfig.Fields() {
		if f.Type.Kind() == reflect.Slice {
			lists = append(lists, f.Tag.Get("koanf"))
		}
	}
	return guild.Nearest(name, lists)
}
