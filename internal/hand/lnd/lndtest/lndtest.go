// Package lndtest gives tests two lnd nodes with a channel between them: real ones on a chain of their own, or as much of two
// nodes as the package lnd speaks with, in this process. The money is not real.
package lndtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"guild"
)

// Enough are the permissions that guild needs: entity and action, with a colon between.
var Enough = []string{"info:read", "invoices:read", "invoices:write", "offchain:read", "offchain:write"}

// Node is a node that a test can use.
type Node struct {
	Address string            // of its REST API
	Cert    *x509.Certificate // of that
	Key     string            // its public key, in hex

	peer  string // where it listens for other nodes
	admin string // a macaroon that allows everything, in hex
	http  *http.Client
}

func newNode(address string, cert *x509.Certificate, admin string) *Node {
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &Node{Address: address, Cert: cert, admin: admin, http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}}
}

// Connection returns a connection string with some permissions.
func (n *Node) Connection(t *testing.T, permissions ...string) string {
	t.Helper()
	type permission struct {
		Entity string `json:"entity"`
		Action string `json:"action"`
	}
	var wanted []permission
	for _, p := range permissions {
		entity, action, _ := strings.Cut(p, ":")
		wanted = append(wanted, permission{entity, action})
	}
	var baked struct {
		Macaroon string `json:"macaroon"`
	}
	n.Call(t, "POST", "/v1/macaroon", map[string]any{"permissions": wanted}, &baked)
	cert := base64.RawURLEncoding.EncodeToString(n.Cert.Raw)
	return "lndconnect://" + n.Address + "?cert=" + cert + "&macaroon=" + url.QueryEscape(baked.Macaroon)
}

// Hold makes an invoice whose payment the node keeps under way until Settle.
func (n *Node) Hold(t *testing.T, preimage [32]byte, amount guild.Msat) string {
	t.Helper()
	hash := sha256.Sum256(preimage[:])
	var made struct {
		Invoice string `json:"payment_request"`
	}
	n.Call(t, "POST", "/v2/invoices/hodl", map[string]any{"hash": hash[:], "value_msat": fmt.Sprint(int64(amount)), "memo": "held"}, &made)
	return made.Invoice
}

// Settle takes the payment of an invoice that was held.
func (n *Node) Settle(t *testing.T, preimage [32]byte) {
	t.Helper()
	n.Call(t, "POST", "/v2/invoices/settle", map[string]any{"preimage": preimage[:]}, nil)
}

// Call makes a request that must succeed, with all permissions.
func (n *Node) Call(t *testing.T, method, path string, params, result any) {
	t.Helper()
	if err := n.try(t.Context(), method, path, params, result); err != nil {
		t.Fatal(err)
	}
}

func (n *Node) try(ctx context.Context, method, path string, params, result any) error {
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://"+n.Address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Grpc-Metadata-macaroon", n.admin)
	answer, err := n.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, raw)
	}
	if err == nil && result != nil {
		err = json.Unmarshal(raw, result)
	}
	return err
}
