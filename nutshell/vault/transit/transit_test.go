package transit_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"guild/nutshell/vault"
	"guild/nutshell/vault/transit"
	"guild/nutshell/vault/transit/transittest"
	"guild/nutshell/vault/vaulttest"
)

// realServer is the variable that names the program of a real server; `make stand` builds one and sets it.
const realServer = "GUILD_VAULT_SERVER"

// onServers runs a test against the server in this process and, where there is one, a real one.
func onServers(t *testing.T, test func(*testing.T, server)) {
	for _, name := range []string{"VAULT", "BAO"} {
		for _, v := range []string{"_ADDR", "_AGENT_ADDR", "_TOKEN", "_NAMESPACE"} {
			t.Setenv(name+v, "")
			os.Unsetenv(name + v)
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Run("in process", func(t *testing.T) { test(t, server{transittest.New(t)}) })
	if program := os.Getenv(realServer); program != "" {
		t.Run("real", func(t *testing.T) { test(t, server{start(t, program)}) })
	}
}

// server is the address of a server whose root token is transittest.Root.
type server struct{ address string }

// start starts a server of the program's, in memory.
func start(t *testing.T, program string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	l.Close()
	cmd := exec.Command(program, "server", "-dev", "-dev-no-store-token", "-dev-listen-address="+listen, "-dev-root-token-id="+transittest.Root)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "Root Token:") {
			go io.Copy(io.Discard, out)
			return "http://" + listen
		}
	}
	t.Fatal("the server did not start")
	return ""
}

// admin asks the server for something as root.
func (s server) admin(t *testing.T, path string, body any) map[string]any {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.address+"/v1/"+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Vault-Token", transittest.Root)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s: %d %s", path, answer.StatusCode, text)
	}
	var m map[string]any
	json.NewDecoder(answer.Body).Decode(&m) // there may be no body
	return m
}

// mount enables a transit engine and makes a key.
func (s server) mount(t *testing.T, mount string, keys ...string) {
	t.Helper()
	s.admin(t, "sys/mounts/"+mount, map[string]string{"type": "transit"})
	for _, k := range keys {
		s.admin(t, mount+"/keys/"+k, map[string]string{})
	}
}

// token makes a token that may write to the paths.
func (s server) token(t *testing.T, name string, paths ...string) string {
	t.Helper()
	rules := map[string]any{}
	for _, p := range paths {
		rules[p] = map[string][]string{"capabilities": {"update"}}
	}
	text, err := json.Marshal(map[string]any{"path": rules})
	if err != nil {
		t.Fatal(err)
	}
	s.admin(t, "sys/policies/acl/"+name, map[string]string{"policy": string(text)})
	auth := s.admin(t, "auth/token/create", map[string]any{"policies": []string{name}})["auth"].(map[string]any)
	return auth["client_token"].(string)
}

func (s server) sealer(t *testing.T, o transit.Options) *transit.Sealer {
	t.Helper()
	o.Address = s.address
	if o.Token == "" {
		o.Token = transittest.Root
	}
	sealer, err := transit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return sealer
}

func seal(t *testing.T, s vault.Sealer) []byte {
	t.Helper()
	sealed, err := s.Seal(t.Context(), vault.NewSecret([]byte(vaulttest.Document)))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// refusal returns the error of the server.
func refusal(t *testing.T, err error) *transit.ServerError {
	t.Helper()
	e, ok := errors.AsType[*transit.ServerError](err)
	if !ok {
		t.Fatalf("no refusal of the server: %v", err)
	}
	return e
}

func TestSealer(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		s.mount(t, "transit", "app")
		owner := s.token(t, "owner", "transit/encrypt/app", "transit/decrypt/app")
		stranger := s.token(t, "stranger", "transit/encrypt/app")
		vaulttest.Test(t, func(t *testing.T) (vault.Sealer, vault.Sealer) {
			return s.sealer(t, transit.Options{Key: "app", Token: owner}), s.sealer(t, transit.Options{Key: "app", Token: stranger})
		}, vaulttest.Slow)
	})
}

func TestFileNamesKeyNotServer(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		s.mount(t, "team/transit", "app")
		var m map[string]any
		if err := json.Unmarshal(seal(t, s.sealer(t, transit.Options{Mount: "team/transit", Key: "app"})), &m); err != nil {
			t.Fatal(err)
		}
		if text, ok := m["ciphertext"].(string); !ok || !strings.HasPrefix(text, "vault:v1:") {
			t.Error(m)
		}
		delete(m, "ciphertext")
		want := map[string]any{"encryption": "vault", "version": 1.0, "mount": "team/transit", "key": "app"}
		if !maps.Equal(m, want) {
			t.Error(m)
		}
	})
}

func TestKeyRotation(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		s.mount(t, "transit", "app")
		sealer := s.sealer(t, transit.Options{Key: "app"})
		old := seal(t, sealer)
		s.admin(t, "transit/keys/app/rotate", nil)
		if fresh := seal(t, sealer); !bytes.Contains(fresh, []byte("vault:v2:")) {
			t.Error("the new version is not used")
		}
		if open, err := sealer.Open(t.Context(), old); err != nil || string(open.Reveal()) != vaulttest.Document {
			t.Error(err)
		}
		s.admin(t, "transit/keys/app/config", map[string]int{"min_decryption_version": 2})
		_, err := sealer.Open(t.Context(), old)
		if e := refusal(t, err); !errors.Is(err, vault.ErrNotFor) || !strings.Contains(e.Hint(), "min_decryption_version") {
			t.Errorf("%v, hint %s", err, e.Hint())
		}
	})
}

func TestServerErrorsHaveHints(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		s.mount(t, "transit", "app")
		sealed := seal(t, s.sealer(t, transit.Options{Key: "app"}))
		renamed := func(key string) []byte {
			return bytes.Replace(sealed, []byte(`"app"`), []byte(`"`+key+`"`), 1)
		}
		for name, c := range map[string]struct {
			o      transit.Options
			sealed []byte
			want   error
			status int
			hint   string
		}{
			"invalid token":            {transit.Options{Token: "wrong"}, sealed, vault.ErrNotFor, 403, "transit/decrypt/app"},
			"a token for another path": {transit.Options{Token: s.token(t, "other", "transit/decrypt/other")}, sealed, vault.ErrNotFor, 403, "vault login"},
			"a key that is not there":  {transit.Options{}, renamed("missing"), vault.ErrNotFor, 400, ""},
			"an engine that is not":    {transit.Options{Mount: "gone"}, bytes.Replace(sealed, []byte(`"transit"`), []byte(`"gone"`), 1), vault.ErrNotFor, 404, "-path=gone"},
			"a version that is not":    {transit.Options{}, bytes.Replace(sealed, []byte("vault:v1:"), []byte("vault:v9:"), 1), vault.ErrTampered, 400, ""},
			"a changed ciphertext":     {transit.Options{}, bytes.Replace(sealed, []byte("vault:v1:"), []byte("vault:v1:AAAA"), 1), vault.ErrTampered, 400, ""},
			"an empty ciphertext":      {transit.Options{}, append(sealed[:bytes.Index(sealed, []byte("vault:v1:"))+9:bytes.Index(sealed, []byte("vault:v1:"))+9], `"}`...), vault.ErrTampered, 400, ""},
		} {
			_, err := s.sealer(t, c.o).Open(t.Context(), c.sealed)
			if e := refusal(t, err); !errors.Is(err, c.want) || e.Status != c.status || !strings.Contains(e.Hint(), c.hint) {
				t.Errorf("%s: %v, hint %q", name, err, e.Hint())
			}
		}
		_, err := s.sealer(t, transit.Options{Mount: "gone", Key: "app"}).Seal(t.Context(), vault.NewSecret([]byte("{}")))
		if e := refusal(t, err); e.Status != 404 || !strings.Contains(e.Hint(), "vault secrets enable -path=gone transit") {
			t.Errorf("%v, hint %q", err, e.Hint())
		}
	})
}

func TestSealedServer(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		s.mount(t, "transit", "app")
		t.Setenv("VAULT_MAX_RETRIES", "0")
		sealer := s.sealer(t, transit.Options{Key: "app"})
		s.admin(t, "sys/seal", nil)
		_, err := sealer.Seal(t.Context(), vault.NewSecret([]byte("{}")))
		if e := refusal(t, err); e.Status != 503 || !strings.Contains(e.Hint(), "sealed") {
			t.Errorf("%v, hint %q", err, e.Hint())
		}
	})
}

func TestForeignCiphertext(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		s.mount(t, "transit", "app")
		answer := s.admin(t, "transit/encrypt/app", map[string]string{"plaintext": base64.StdEncoding.EncodeToString([]byte(vaulttest.Document))})
		file := fmt.Sprintf(`{"encryption":"vault","version":1,"mount":"transit","key":"app","ciphertext":%q}`, answer["data"].(map[string]any)["ciphertext"])
		if _, err := s.sealer(t, transit.Options{}).Open(t.Context(), []byte(file)); !errors.Is(err, vault.ErrTampered) {
			t.Error(err)
		}
	})
}

// requests are those that a server got.
func requests(t *testing.T, status int, body string) (address string, got *[]string) {
	got = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*got = append(*got, r.URL.Path)
		if status/100 == 3 {
			w.Header().Set("Location", "http://127.0.0.1:1/v1/transit/encrypt/app")
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

func TestHostileFilePaths(t *testing.T) {
	address, got := requests(t, 200, "{}")
	file := func(mount, key string) []byte {
		return fmt.Appendf(nil, `{"encryption":"vault","version":1,"mount":%q,"key":%q,"ciphertext":"vault:v1:AAAA"}`, mount, key)
	}
	s := server{address}.sealer(t, transit.Options{})
	for name, c := range map[string]struct {
		sealed []byte
		want   error
	}{
		"another mount":    {file("secret", "app"), vault.ErrNotFor},
		"a longer mount":   {file("transit/keys", "app"), vault.ErrNotFor},
		"up":               {file("transit/../secret", "app"), vault.ErrNotSealed},
		"a key that is up": {file("transit", "../../secret/x"), vault.ErrNotSealed},
		"dots":             {file("transit", ".."), vault.ErrNotSealed},
		"a slash":          {file("transit", "a/b"), vault.ErrNotSealed},
		"a query":          {file("transit", "a?b"), vault.ErrNotSealed},
		"an escape":        {file("transit", "a%2fb"), vault.ErrNotSealed},
		"nothing":          {file("", ""), vault.ErrNotSealed},
	} {
		if _, err := s.Open(t.Context(), c.sealed); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(*got) > 0 {
		t.Error("the server was asked for", *got)
	}
	key, err := transit.New(transit.Options{Key: "mine", Address: address})
	if err != nil {
		t.Fatal(err)
	}
	_, err = key.Open(t.Context(), file("transit", "app"))
	if other, ok := errors.AsType[*transit.OtherKeyError](err); !ok || !errors.Is(err, vault.ErrNotFor) || other.Key != "app" || other.Hint() == "" {
		t.Error(err)
	}
}

func TestInvalidAnswers(t *testing.T) {
	for name, body := range map[string]string{
		"nothing": "", "no data": "{}", "no ciphertext": `{"data":{}}`, "a number": `{"data":{"ciphertext":1}}`, "no prefix": `{"data":{"ciphertext":"plain"}}`,
		"too much": `{"data":{"ciphertext":"vault:v1:` + strings.Repeat("A", 5<<20) + `"}}`, "HTML": "<html>" + vaulttest.Marker,
	} {
		address, _ := requests(t, 200, body)
		_, err := server{address}.sealer(t, transit.Options{Key: "app"}).Seal(t.Context(), vault.NewSecret([]byte("{}")))
		if err == nil || strings.Contains(err.Error(), vaulttest.Marker) {
			t.Errorf("%s: %v", name, err)
		}
	}
	address, got := requests(t, 307, "")
	_, err := server{address}.sealer(t, transit.Options{Key: "app"}).Seal(t.Context(), vault.NewSecret([]byte("{}")))
	if e := refusal(t, err); e.Status != 307 || len(*got) != 1 || !strings.Contains(e.Hint(), "active") {
		t.Errorf("a redirect was followed: %v, %v", err, *got)
	}
	address, _ = requests(t, 400, "<html>"+vaulttest.Marker)
	_, err = server{address}.sealer(t, transit.Options{Key: "app"}).Seal(t.Context(), vault.NewSecret([]byte("{}")))
	if e := refusal(t, err); e.Text != "" {
		t.Error(err)
	}
}

func TestUnreachableServerRetries(t *testing.T) {
	t.Setenv("VAULT_MAX_RETRIES", "1000000")
	address, got := requests(t, 500, `{"errors":["storage is down"]}`)
	_, err := server{address}.sealer(t, transit.Options{Key: "app"}).Seal(t.Context(), vault.NewSecret([]byte("{}")))
	if e := refusal(t, err); e.Status != 500 || len(*got) > 3 {
		t.Errorf("%v after %d requests", err, len(*got))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	t.Setenv("VAULT_MAX_RETRIES", "0")
	_, err = server{"http://" + l.Addr().String()}.sealer(t, transit.Options{Key: "app"}).Seal(t.Context(), vault.NewSecret([]byte("{}")))
	if e := refusal(t, err); e.Status != 0 || !strings.Contains(e.Hint(), "VAULT_ADDR") {
		t.Error(err)
	}
}

func TestPlainHTTPIsRefused(t *testing.T) {
	for address, allowed := range map[string]bool{
		"http://vault.example": false, "http://10.0.0.1:8200": false, "http://localhost.evil:8200": false, "ftp://localhost": false, "vault": false,
		"http://127.0.0.1.evil": false, "http://localhost@evil": false,
		"https://vault.example": true, "http://127.0.0.1:8200": true, "http://[::1]:8200": true, "http://localhost:8200": true, "unix:///run/vault.sock": true,
	} {
		for variable, set := range map[string]func(*testing.T) transit.Options{
			"option":           func(*testing.T) transit.Options { return transit.Options{Address: address} },
			"VAULT_ADDR":       func(t *testing.T) transit.Options { t.Setenv("VAULT_ADDR", address); return transit.Options{} },
			"BAO_ADDR":         func(t *testing.T) transit.Options { t.Setenv("BAO_ADDR", address); return transit.Options{} },
			"VAULT_AGENT_ADDR": func(t *testing.T) transit.Options { t.Setenv("VAULT_AGENT_ADDR", address); return transit.Options{} },
		} {
			t.Run(variable, func(t *testing.T) {
				if _, err := transit.New(set(t)); (err == nil) != allowed {
					t.Errorf("%s: %v", address, err)
				}
			})
		}
	}
	_, err := transit.New(transit.Options{Address: "http://vault.example"})
	if e, ok := errors.AsType[*transit.InsecureError](err); !ok || !strings.Contains(e.Hint(), "https") {
		t.Error(err)
	}
}

func TestTokenSources(t *testing.T) {
	onServers(t, func(t *testing.T, s server) {
		s.mount(t, "transit", "app")
		home := t.TempDir()
		t.Setenv("HOME", home)
		t.Setenv("VAULT_ADDR", s.address)
		sealed := func() error {
			sealer, err := transit.New(transit.Options{Key: "app"})
			if err != nil {
				return err
			}
			_, err = sealer.Seal(t.Context(), vault.NewSecret([]byte("{}")))
			return err
		}
		if e := refusal(t, sealed()); e.Status != 403 && e.Status != 400 {
			t.Error("without a token:", e)
		}
		if err := os.WriteFile(filepath.Join(home, ".vault-token"), []byte(transittest.Root+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := sealed(); err != nil {
			t.Error("with the file of vault login:", err)
		}
		t.Setenv("VAULT_TOKEN", "wrong")
		if e := refusal(t, sealed()); e.Status != 403 {
			t.Error("the environment comes first:", e)
		}
		t.Setenv("BAO_TOKEN", transittest.Root)
		if err := sealed(); err != nil {
			t.Error(err)
		}
	})
}

func TestTLSIsVerified(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":{"ciphertext":"vault:v1:AAAA"}}`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	t.Setenv("VAULT_MAX_RETRIES", "0")
	o := transit.Options{Address: s.URL, Key: "app", Token: "t"}
	try := func() error {
		sealer, err := transit.New(o)
		if err == nil {
			_, err = sealer.Seal(t.Context(), vault.NewSecret([]byte("{}")))
		}
		return err
	}
	if err := try(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error("a certificate of nobody's was taken:", err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VAULT_CACERT", ca)
	if err := try(); err != nil {
		t.Error(err)
	}
}

func TestInvalidKeyNames(t *testing.T) {
	for _, o := range []transit.Options{{Mount: ".."}, {Mount: "a//b"}, {Key: "a/b"}, {Key: "ü"}, {Key: strings.Repeat("a", 129)}, {Mount: strings.Repeat("a/", 9) + "a"}} {
		if _, err := transit.New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	s, err := transit.New(transit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Seal(t.Context(), vault.NewSecret([]byte("{}"))); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.EscapedPath())
		io.WriteString(w, `{"data":{"plaintext":"e30="}}`)
	}))
	f.Cleanup(s.Close)
	sealer, err := transit.New(transit.Options{Address: s.URL, Token: "t"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"encryption":"vault","version":1,"mount":"transit","key":"app","ciphertext":"vault:v1:AAAA"}`))
	f.Add([]byte(`{"encryption":"vault","version":1,"mount":"transit","key":"..","ciphertext":"vault:v1:AAAA"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got = nil
		_, err := sealer.Open(t.Context(), b)
		if err != nil && !errors.Is(err, vault.ErrNotSealed) && !errors.Is(err, vault.ErrNotFor) && !errors.Is(err, vault.ErrTooLarge) {
			t.Fatal(err)
		}
		if slices.ContainsFunc(got, func(p string) bool {
			return !strings.HasPrefix(p, "/v1/transit/decrypt/") || strings.Count(p, "/") != 4
		}) {
			t.Fatalf("%q asked for %q", b, got)
		}
	})
}

// The address and the token come from the environment, as for the programs vault and bao.
func Example() {
	_, err := transit.New(transit.Options{Key: "nutshell", Address: "http://vault.example:8200"})
	fmt.Println(err)
	// Output: transit: "http://vault.example:8200" is not reached over TLS, and is not on this machine
}
