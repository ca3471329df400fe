package schema

import (
	"encoding/json"

	"guild/nutshell"
)

// vault is the document of an open vault, for its schema only. Package nutshell/vault reads it, and keeps what is
// read where it cannot be printed.
type vault struct {
	Version     string             `json:"vault_version"`
	CreatedAt   nutshell.Timestamp `json:"created_at"`
	ExpiresAt   nutshell.Timestamp `json:"expires_at"`
	Credentials []credential       `json:"credentials"`
}

type credential struct {
	Name         string             `json:"name"`
	Type         string             `json:"type"`
	Value        json.RawMessage    `json:"value"`
	Scopes       []string           `json:"scopes"`
	Restrictions json.RawMessage    `json:"restrictions"`
	ExpiresAt    nutshell.Timestamp `json:"expires_at"`
}

func vaultTexts() []text {
	return []text{
		{path: "vault_version", says: "Version of the specification that the vault follows."},
		{path: "created_at", says: "When the vault was made."},
		{path: "expires_at", says: "Until when the credentials may be used, unless one says something earlier."},
		{path: "credentials", says: "The entries."},
		{path: "credentials.name", says: "The name of the entry, once in the vault. The manifest's scopes have the same."},
		{path: "credentials.type", says: "What it opens, such as postgresql or bearer_token."},
		{path: "credentials.value", says: "The secret: an object such as host, port, username and password, or a text."},
		{path: "credentials.scopes", says: "What it may be used for, such as read."},
		{path: "credentials.restrictions", says: "What narrows it down: tables, endpoints, rate limits."},
		{path: "credentials.expires_at", says: "Until when it may be used; the vault's own if absent."},
	}
}
