package schema

import (
	"encoding/json"

	"guild/nutshell"
)

// vault is the table of an open vault, for its schema only. Package nutshell/vault reads the document, into types that
// cannot be printed.
type vault struct {
	Version     string             `json:"vault_version" rule:"required" form:"vault" about:"Version of the specification that the vault follows."`
	CreatedAt   nutshell.Timestamp `json:"created_at" about:"When the vault was made."`
	ExpiresAt   nutshell.Timestamp `json:"expires_at" about:"Until when the credentials may be used, unless one says something earlier."`
	Credentials []credential       `json:"credentials" about:"The entries."`
}

type credential struct {
	Name         string             `json:"name" rule:"required" about:"The name of the entry, once in the vault. The manifest's scopes have the same."`
	Type         string             `json:"type" about:"What it opens, such as postgresql or bearer_token."`
	Value        json.RawMessage    `json:"value" rule:"required" about:"The secret: an object such as host, port, username and password, or a text."`
	Scopes       []string           `json:"scopes" about:"What it may be used for, such as read."`
	Restrictions json.RawMessage    `json:"restrictions" about:"What narrows it down: tables, endpoints, rate limits."`
	ExpiresAt    nutshell.Timestamp `json:"expires_at" about:"Until when it may be used; the vault's own if absent."`
}

// finishVault sets the types that the table does not say.
func finishVault(root *node) {
	one := root.at("credentials").Items
	one.Type = types{"object"}
	one.at("value").Type = types{"object", "string"}
	one.at("restrictions").Type = types{"object", "null"}
}
