// Package transittest is a server with the part of HashiCorp Vault's API that a transit sealer and its tests use: mounts,
// policies, tokens, and the transit engine with real keys in versions (AES-GCM with associated data). It answers as the
// real server does; the tests of package transit run against both.
package transittest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// maxString is the longest string that a real server takes, in bytes.
const maxString = 1 << 20

// Root is the token that may do everything.
const Root = "root"

// New starts a server on the loopback interface, which ends with the test, and returns its address. It has no mounts.
func New(t testing.TB) (address string) {
	t.Helper()
	s := &server{mounts: map[string]map[string]*key{}, policies: map[string]policy{}, tokens: map[string][]string{Root: nil}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL
}

type server struct {
	mu       sync.Mutex
	sealed   bool
	mounts   map[string]map[string]*key // transit engines by mount: keys by name
	policies map[string]policy
	tokens   map[string][]string // policies by token
}

// policy is the JSON form of a policy, without patterns.
type policy struct {
	Path map[string]struct {
		Capabilities []string `json:"capabilities"`
	} `json:"path"`
}

// key is a key of an engine. Version n is at n-1.
type key struct {
	versions []cipher.AEAD
	least    int // version that still decrypts
}

// problem is an answer with an error.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

func bad(format string, args ...any) error {
	return &problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// request is the body of all requests that the server knows.
type request struct {
	Type           string   `json:"type"`
	Policy         string   `json:"policy"`
	Policies       []string `json:"policies"`
	Plaintext      string   `json:"plaintext"`
	Ciphertext     string   `json:"ciphertext"`
	AssociatedData string   `json:"associated_data"`
	Least          int      `json:"min_decryption_version"`
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, err := s.serve(r)
	w.Header().Set("Content-Type", "application/json")
	if p, ok := errors.AsType[*problem](err); ok {
		w.WriteHeader(p.status)
		json.NewEncoder(w).Encode(map[string][]string{"errors": {p.text}})
		return
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	json.NewEncoder(w).Encode(answer)
}

func (s *server) serve(r *http.Request) (any, error) {
	if s.sealed {
		return nil, &problem{http.StatusServiceUnavailable, "Vault is sealed"}
	}
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	if !s.may(r.Header.Get("X-Vault-Token"), path) {
		return nil, &problem{http.StatusForbidden, "permission denied"}
	}
	var body request
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 32<<20)).Decode(&body); err != nil && r.ContentLength != 0 {
		return nil, bad("failed to parse JSON input: %v", err)
	}
	if max(len(body.Plaintext), len(body.Ciphertext)) > maxString {
		return nil, &problem{http.StatusInternalServerError, "JSON string value exceeds allowed length"}
	}
	if rest, ok := strings.CutPrefix(path, "sys/"); ok {
		return s.system(rest, body)
	}
	if path == "auth/token/create" {
		token := rand.Text()
		s.tokens[token] = body.Policies
		return map[string]any{"auth": map[string]string{"client_token": token}}, nil
	}
	return s.transit(path, body)
}

// may reports whether a token may write to a path.
func (s *server) may(token, path string) bool {
	policies, known := s.tokens[token]
	if token == Root || !known {
		return known
	}
	return slices.ContainsFunc(policies, func(name string) bool {
		return slices.Contains(s.policies[name].Path[path].Capabilities, "update")
	})
}

func (s *server) system(path string, body request) (any, error) {
	what, name, _ := strings.Cut(path, "/")
	switch what {
	case "seal":
		s.sealed = true
	case "mounts":
		s.mounts[name] = map[string]*key{}
	case "policies":
		var p policy
		if err := json.Unmarshal([]byte(body.Policy), &p); err != nil {
			return nil, bad("failed to parse policy: %v", err)
		}
		s.policies[strings.TrimPrefix(name, "acl/")] = p
	}
	return nil, nil
}

// transit finds the engine by its mount, which may contain slashes.
func (s *server) transit(path string, body request) (any, error) {
	for mount, keys := range s.mounts {
		if rest, ok := strings.CutPrefix(path, mount+"/"); ok {
			verb, name, _ := strings.Cut(rest, "/")
			return engine(keys).do(verb, name, body)
		}
	}
	return nil, &problem{http.StatusNotFound, fmt.Sprintf("no handler for route %q. route entry not found.", path)}
}

type engine map[string]*key

func (e engine) do(verb, name string, body request) (any, error) {
	name, action, _ := strings.Cut(name, "/")
	k := e[name]
	if k == nil {
		if verb != "keys" && verb != "encrypt" {
			return nil, bad("encryption key not found")
		}
		k = &key{least: 1}
		k.rotate()
		e[name] = k
	}
	switch verb + "/" + action {
	case "keys/rotate":
		k.rotate()
	case "keys/config":
		k.least = body.Least
	case "encrypt/":
		return k.encrypt(body)
	case "decrypt/":
		plaintext, err := k.decrypt(body)
		return data("plaintext", base64.StdEncoding.EncodeToString(plaintext)), err
	}
	return nil, nil
}

func data(name, value string) any {
	return map[string]any{"data": map[string]string{name: value}}
}

// rotate adds a version.
func (k *key) rotate() {
	secret := make([]byte, 32)
	rand.Read(secret)
	block, err := aes.NewCipher(secret)
	if err != nil {
		panic(err) // the size is right
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // so is the block's
	}
	k.versions = append(k.versions, aead)
}

func (k *key) encrypt(body request) (any, error) {
	plaintext, err := base64.StdEncoding.DecodeString(body.Plaintext)
	if err != nil {
		return nil, bad("failed to base64-decode plaintext")
	}
	associated, err := base64.StdEncoding.DecodeString(body.AssociatedData)
	if err != nil {
		return nil, bad("failed to base64-decode associated_data")
	}
	last := k.versions[len(k.versions)-1]
	nonce := make([]byte, last.NonceSize())
	rand.Read(nonce)
	sealed := base64.StdEncoding.EncodeToString(last.Seal(nonce, nonce, plaintext, associated))
	return data("ciphertext", fmt.Sprintf("vault:v%d:%s", len(k.versions), sealed)), nil
}

func (k *key) decrypt(body request) ([]byte, error) {
	rest, ok := strings.CutPrefix(body.Ciphertext, "vault:v")
	number, encoded, two := strings.Cut(rest, ":")
	if !ok || !two {
		return nil, bad("invalid ciphertext: no prefix")
	}
	version, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return nil, bad("invalid ciphertext: version number could not be decoded")
	case version > len(k.versions):
		return nil, bad("invalid ciphertext: version is too new")
	case version < k.least:
		return nil, bad("ciphertext or signature version is disallowed by policy (too old)")
	}
	sealed, err := base64.StdEncoding.DecodeString(encoded)
	aead := k.versions[max(version, 1)-1]
	if err != nil || len(sealed) < aead.NonceSize() {
		return nil, bad("invalid ciphertext: could not decode base64")
	}
	associated, err := base64.StdEncoding.DecodeString(body.AssociatedData)
	if err != nil {
		return nil, bad("failed to base64-decode associated_data")
	}
	plaintext, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], associated)
	if err != nil {
		return nil, bad("cipher: message authentication failed")
	}
	return plaintext, nil
}
