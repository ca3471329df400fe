// Package transit seals vaults with the transit engine of HashiCorp Vault or OpenBao: the key never leaves the server,
// whose policies say who may open a vault.
//
// A sealed vault is a small JSON document: where the engine is mounted, the name of the key, and the ciphertext. It does
// not name the server, because a stranger's file must not decide where a person's token goes. The person's environment
// does, with the variables of both programs (VAULT_ADDR, VAULT_TOKEN, VAULT_NAMESPACE, VAULT_CACERT and so on, or the
// same with BAO_), and the file in which `vault login` keeps its token. For the same reason a file opens only under the
// mount that the person expects, and cannot cause a request to another path of the server.
//
// The associated data of the encryption says that it is a vault of a bundle, so that a ciphertext taken from elsewhere
// does not open, even if the same key made it.
package transit

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openbao/openbao/api/v2"

	"guild/nutshell/vault"
)

// DefaultMount is the usual path of the transit engine.
const DefaultMount = "transit"

// associated is the data that the server binds to each ciphertext.
const associated = "nutshell vault 1"

// Limits of a request.
const (
	maxAnswer  = 4 << 20 // bytes
	maxRetries = 2       // when the server is overloaded or cannot be reached
	maxToken   = 8 << 10 // bytes of a token file
	overhead   = 256     // bytes, about, by which a sealed vault is longer than its document in base64
)

// Options say which key of which server. Address and Token override the environment.
type Options struct {
	Mount string // DefaultMount if empty; also the only one under which Open opens
	Key   string // seals; when given, also the only one with which Open opens

	Address string        // from VAULT_ADDR or BAO_ADDR if empty
	Token   string        // from VAULT_TOKEN, BAO_TOKEN or ~/.vault-token if empty
	Timeout time.Duration // of one request and its retries; 30 seconds if zero
}

// Sealer implements vault.Sealer.
type Sealer struct {
	o      Options
	client *api.Client
}

// New returns a sealer. It reads the environment; the server is contacted only to seal or open. The error is an
// *InsecureError if the address is on another machine and without TLS.
func New(o Options) (*Sealer, error) {
	o.Mount, o.Timeout = cmp.Or(strings.Trim(o.Mount, "/"), DefaultMount), cmp.Or(o.Timeout, 30*time.Second)
	if !isMount(o.Mount) {
		return nil, fmt.Errorf("%.80q cannot be where a transit engine is mounted", o.Mount)
	}
	if o.Key != "" && !isKey(o.Key) {
		return nil, fmt.Errorf("%.80q cannot be the name of a transit key", o.Key)
	}
	client, err := dial(o)
	if err != nil {
		return nil, err
	}
	return &Sealer{o, client}, nil
}

// dial returns a client that retries a few times, limits answers, and follows no redirect.
func dial(o Options) (*api.Client, error) {
	config := api.DefaultConfig()
	if config.Error != nil {
		return nil, fmt.Errorf("transit: %w", config.Error)
	}
	if o.Address != "" {
		config.Address, config.AgentAddress = o.Address, ""
	}
	config.Timeout, config.MaxRetries, config.DisableRedirects = o.Timeout, min(config.MaxRetries, maxRetries), true
	client, err := api.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("transit: %w", err)
	}
	secure, err := checkAddress(client.Address())
	if err != nil {
		return nil, err
	}
	transport, ok := config.HttpClient.Transport.(*http.Transport)
	if ok && !secure {
		transport.Proxy, config.SRVLookup = nil, false // neither takes what is in clear off this machine
	}
	config.HttpClient.Transport = bounded{config.HttpClient.Transport}
	if token := cmp.Or(o.Token, client.Token(), tokenFile()); token != "" {
		client.SetToken(token)
	}
	return client, nil
}

// checkAddress refuses an address to which secrets would be sent unencrypted over a network.
func checkAddress(address string) (secure bool, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false, fmt.Errorf("transit: %.200q is not the address of a server", address)
	}
	ip := net.ParseIP(u.Hostname())
	switch {
	case u.Scheme == "https":
		return true, nil
	case u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()):
		return false, nil
	}
	return false, &InsecureError{address}
}

// tokenFile returns the token that `vault login` or `bao login` left, or "".
func tokenFile() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	path := cmp.Or(api.ReadBaoVariable(api.EnvTokenPath), filepath.Join(home, ".vault-token"))
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxToken {
		return ""
	}
	token, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(token))
}

// Form implements vault.Sealer.
func (*Sealer) Form() string { return vault.Transit }

// Seal implements vault.Sealer. The server makes a missing key, if its policies let the token do that.
func (s *Sealer) Seal(ctx context.Context, document vault.Secret) ([]byte, error) {
	switch {
	case s.o.Key == "":
		return nil, ErrNoKey
	case base64.StdEncoding.EncodedLen(len(document.Reveal()))+overhead > vault.MaxSealed: // servers take no longer string
		return nil, vault.ErrTooLarge
	}
	ciphertext, err := s.ask(ctx, "encrypt", s.o.Key, "ciphertext", map[string]any{
		"plaintext": base64.StdEncoding.EncodeToString(document.Reveal()), "associated_data": encodedAssociated(),
	})
	if err != nil {
		return nil, fmt.Errorf("seal the vault: %w", err)
	}
	return file{s.o.Mount, s.o.Key, ciphertext}.encode()
}

// Open implements vault.Sealer.
func (s *Sealer) Open(ctx context.Context, sealed []byte) (vault.Secret, error) {
	f, err := parse(sealed)
	if err != nil {
		return vault.Secret{}, err
	}
	if f.Mount != s.o.Mount || s.o.Key != "" && f.Key != s.o.Key {
		return vault.Secret{}, &OtherKeyError{f.Mount, f.Key}
	}
	plaintext, err := s.ask(ctx, "decrypt", f.Key, "plaintext", map[string]any{
		"ciphertext": f.Ciphertext, "associated_data": encodedAssociated(),
	})
	if err != nil {
		return vault.Secret{}, opening(err)
	}
	document, err := base64.StdEncoding.DecodeString(plaintext)
	switch {
	case err != nil:
		return vault.Secret{}, errAnswer
	case len(document) > vault.MaxSealed:
		return vault.Secret{}, vault.ErrTooLarge
	}
	return vault.NewSecret(document), nil
}

func encodedAssociated() string { return base64.StdEncoding.EncodeToString([]byte(associated)) }

// ask sends one request to the engine and returns one member of the answer.
func (s *Sealer) ask(ctx context.Context, verb, key, member string, data map[string]any) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	timed, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	path := s.o.Mount + "/" + verb + "/" + key
	status := 0
	client := s.client.WithResponseCallbacks(func(r *api.Response) { status = r.StatusCode })
	answer, err := client.Logical().WriteWithContext(timed, path, data)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", s.refused(path, err)
	case status/100 == 3:
		return "", &ServerError{Address: s.client.Address(), Path: path, Status: status}
	case answer == nil:
		return "", errAnswer
	}
	value, ok := answer.Data[member].(string)
	if !ok || value == "" {
		return "", errAnswer
	}
	return value, nil
}
