package blossom

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
)

func testConfig(t testing.TB) Config {
	return Config{Dir: filepath.Join(t.TempDir(), "blobs"), URL: "http://blobs.example", Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

// start serves a directory until the test ends.
func start(t testing.TB, c Config) *httptest.Server {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.Close(); s.Close() })
	return server
}

func signer(secret nostr.SecretKey) nostr.Signer { return key.NewSigner(key.NewSecret(secret)) }

func sign(t testing.TB, secret nostr.SecretKey, e nostr.Event) nostr.Event {
	t.Helper()
	v, err := guild.Sign(context.Background(), signer(secret), e)
	if err != nil {
		t.Fatal(err)
	}
	return v.Event()
}

var alice, bob = nostr.SecretKey{31: 1}, nostr.SecretKey{31: 2}

// header signs a kind 24242 event with the given tags.
func header(t testing.TB, secret nostr.SecretKey, tags ...nostr.Tag) string {
	t.Helper()
	return headerOf(t, sign(t, secret, nostr.Event{Kind: 24242, CreatedAt: nostr.Now(), Tags: tags}))
}

func headerOf(t testing.TB, e nostr.Event) string {
	t.Helper()
	b, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return "Nostr " + base64.StdEncoding.EncodeToString(b)
}

func later() nostr.Tag { return nostr.Tag{"expiration", fmt.Sprint(time.Now().Unix() + 60)} }

func uploadHeader(t testing.TB, key nostr.SecretKey, content string) string {
	t.Helper()
	return header(t, key, nostr.Tag{"t", "upload"}, nostr.Tag{"x", guild.Sum([]byte(content)).Hex()}, later())
}

// do sends one request and returns the status and the body.
func do(t testing.TB, method, url, authorization string, body io.Reader) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

func put(t testing.TB, server *httptest.Server, key nostr.SecretKey, content string) int {
	t.Helper()
	status, _, _ := do(t, "PUT", server.URL+"/upload", uploadHeader(t, key, content), strings.NewReader(content))
	return status
}

// files lists the files in the server's directory, without the claims.
func files(t testing.TB, c Config) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.Contains(path, dirOwners) {
			names = append(names, strings.TrimPrefix(path, c.Dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestBlobLife(t *testing.T) {
	c := testConfig(t)
	server := start(t, c)
	content := "the content"
	hash := guild.Sum([]byte(content)).Hex()
	status, body, _ := do(t, "PUT", server.URL+"/upload", uploadHeader(t, alice, content), strings.NewReader(content))
	var d descriptor
	if err := json.Unmarshal([]byte(body), &d); err != nil || status != 200 {
		t.Fatalf("upload: %d %s %v", status, body, err)
	}
	if d.URL != c.URL+"/"+hash || d.SHA256 != hash || d.Size != int64(len(content)) || d.Uploaded == 0 {
		t.Errorf("descriptor %+v", d)
	}
	for _, path := range []string{"/" + hash, "/" + hash + ".nut"} {
		status, body, h := do(t, "GET", server.URL+path, "", nil)
		if status != 200 || body != content {
			t.Errorf("%s: %d %q", path, status, body)
		}
		if h.Get("Content-Type") != contentType || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Disposition") != "attachment" {
			t.Errorf("headers %v", h)
		}
	}
	if status, body, h := do(t, "HEAD", server.URL+"/"+hash, "", nil); status != 200 || body != "" || h.Get("Content-Length") != fmt.Sprint(len(content)) {
		t.Errorf("HEAD: %d %q %v", status, body, h)
	}
	list := server.URL + "/list/" + nostr.GetPublicKey(alice).Hex()
	if status, body, _ := do(t, "GET", list, header(t, alice, nostr.Tag{"t", "list"}, later()), nil); status != 200 || !strings.Contains(body, hash) {
		t.Errorf("list: %d %s", status, body)
	}
	if status, _, _ := do(t, "GET", list, header(t, bob, nostr.Tag{"t", "list"}, later()), nil); status != 403 {
		t.Errorf("a stranger's list: %d", status)
	}
	remove := func(key nostr.SecretKey) int {
		status, _, _ := do(t, "DELETE", server.URL+"/"+hash, header(t, key, nostr.Tag{"t", "delete"}, nostr.Tag{"x", hash}, later()), nil)
		return status
	}
	if got := remove(bob); got != 404 {
		t.Errorf("a stranger deletes: %d", got)
	}
	put(t, server, bob, content)
	if got := remove(alice); got != 204 {
		t.Errorf("alice deletes: %d", got)
	}
	if status, _, _ := do(t, "GET", server.URL+"/"+hash, "", nil); status != 200 {
		t.Errorf("bob's copy went with alice's: %d", status)
	}
	if got := remove(bob); got != 204 || len(files(t, c)) != 0 {
		t.Errorf("bob deletes: %d, left %v", got, files(t, c))
	}
}

func TestServeRanges(t *testing.T) {
	server := start(t, testConfig(t))
	content := strings.Repeat("0123456789", 100)
	put(t, server, alice, content)
	req, err := http.NewRequest("GET", server.URL+"/"+guild.Sum([]byte(content)).Hex(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=10-14")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 206 || string(b) != "01234" {
		t.Errorf("%d %q", resp.StatusCode, b)
	}
}

func TestUploadAuthorization(t *testing.T) {
	c := testConfig(t)
	c.Upload = func(p nostr.PubKey) bool { return p == nostr.GetPublicKey(alice) }
	server := start(t, c)
	hash := guild.Sum([]byte("x")).Hex()
	x, verb := nostr.Tag{"x", hash}, nostr.Tag{"t", "upload"}
	signed := func(change func(*nostr.Event)) nostr.Event {
		e := nostr.Event{Kind: 24242, CreatedAt: nostr.Now(), Tags: nostr.Tags{verb, x, later()}}
		change(&e)
		return sign(t, alice, e)
	}
	forged := signed(func(*nostr.Event) {})
	forged.Sig[5] ^= 1
	stolen := signed(func(*nostr.Event) {})
	stolen.PubKey = nostr.GetPublicKey(bob)
	for name, tt := range map[string]struct {
		authorization string
		want          int
	}{
		"good":              {header(t, alice, verb, x, later()), 200},
		"none":              {"", 401},
		"another scheme":    {"Bearer x", 401},
		"no base64":         {"Nostr ***", 401},
		"no JSON":           {"Nostr " + base64.StdEncoding.EncodeToString([]byte("{")), 401},
		"huge":              {"Nostr " + strings.Repeat("A", 20<<10), 401},
		"another verb":      {header(t, alice, nostr.Tag{"t", "delete"}, x, later()), 401},
		"no blob":           {header(t, alice, verb, later()), 401},
		"another blob":      {header(t, alice, verb, nostr.Tag{"x", guild.Sum(nil).Hex()}, later()), 403},
		"expired":           {header(t, alice, verb, x, nostr.Tag{"expiration", "1700000000"}), 401},
		"no expiration":     {header(t, alice, verb, x), 401},
		"a bad expiration":  {header(t, alice, verb, x, nostr.Tag{"expiration", "soon"}), 401},
		"for this server":   {header(t, alice, verb, x, later(), nostr.Tag{"server", "127.0.0.1"}), 200},
		"for another one":   {header(t, alice, verb, x, later(), nostr.Tag{"server", "other.example"}), 401},
		"another kind":      {headerOf(t, signed(func(e *nostr.Event) { e.Kind = 1 })), 401},
		"from the future":   {headerOf(t, signed(func(e *nostr.Event) { e.CreatedAt += 3600 })), 401},
		"forged":            {headerOf(t, forged), 401},
		"another's":         {headerOf(t, stolen), 401},
		"a key not allowed": {header(t, bob, verb, x, later()), 403},
	} {
		if status, body, _ := do(t, "PUT", server.URL+"/upload", tt.authorization, strings.NewReader("x")); status != tt.want {
			t.Errorf("%s: %d %s, want %d", name, status, body, tt.want)
		}
	}
	if got := files(t, c); len(got) != 1 {
		t.Errorf("stored: %v", got)
	}
}

func TestTooLargeUpload(t *testing.T) {
	c := testConfig(t)
	c.MaxBlob, c.MaxStore = 10_000, 25_000
	server := start(t, c)
	large := strings.Repeat("x", 10_001)
	if got := put(t, server, alice, large); got != 413 {
		t.Errorf("announced: %d", got)
	}
	unannounced := io.MultiReader(strings.NewReader(large)) // sent in chunks
	if status, _, _ := do(t, "PUT", server.URL+"/upload", uploadHeader(t, alice, large), unannounced); status != 413 {
		t.Errorf("in chunks: %d", status)
	}
	for i, want := range []int{200, 200, 507} {
		if got := put(t, server, alice, fmt.Sprint(i, large[:9_000])); got != want {
			t.Errorf("upload %d: %d, want %d", i, got, want)
		}
	}
	if got := files(t, c); len(got) != 2 {
		t.Errorf("left: %v", got)
	}
}

func TestNamesAreHashes(t *testing.T) {
	c := testConfig(t)
	server := start(t, c)
	secret := filepath.Join(filepath.Dir(c.Dir), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	hash := strings.Repeat("a", 64)
	for _, path := range []string{
		"/../secret", "/%2e%2e/secret", "/..%2fsecret", "/" + hash + "/../../secret", "/" + hash + ".x/../../secret",
		"/sha256:" + hash, "/" + hash[:63], "/" + hash + "a", "/blobs/" + hash, "/temp/x", "/", "//", "/list/", "/list/../blobs",
		"/list/" + hash + "/..", "/" + hash + "\x00", "/%00", "/" + strings.Repeat("x", 10_000),
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: x\r\n\r\n", path)
		answer, _ := io.ReadAll(conn)
		conn.Close()
		if bytes.Contains(answer, []byte("200 OK")) || bytes.Contains(answer, []byte("secret\n")) {
			t.Errorf("%.80q: %.200s", path, answer)
		}
	}
}

func TestSlowUploadIsCut(t *testing.T) {
	c := testConfig(t)
	c.Patience = 100 * time.Millisecond
	server := start(t, c)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nAuthorization: %s\r\n\r\nfirst bytes", uploadHeader(t, alice, "x"))
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(answer, []byte("400 Bad Request")) {
		t.Errorf("%.200s %v", answer, err)
	}
	if got := files(t, c); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestBrokenUploadLeavesNothing(t *testing.T) {
	c := testConfig(t)
	server := start(t, c)
	content := strings.Repeat("x", 1<<20)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT /upload HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nAuthorization: %s\r\n\r\n%s", len(content), uploadHeader(t, alice, content), content[:1<<19])
	conn.Close()
	server.Close() // waits for the request
	if got := files(t, c); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestOpenAfterCrash(t *testing.T) {
	c := testConfig(t)
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	half, _, err := s.store.temp() // as a killed process leaves it
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(half, "half")
	half.Close()
	unowned := filepath.Join(c.Dir, dirBlobs, guild.Sum([]byte("y")).Hex())
	if err := os.WriteFile(unowned, []byte("y"), 0o600); err != nil { // cut between its claim's removal and its own
		t.Fatal(err)
	}
	s.Close()
	server := start(t, c)
	if got := files(t, c); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	if got := put(t, server, alice, "x"); got != 200 {
		t.Errorf("the same blob afterwards: %d", got)
	}
}

func TestConcurrentUploads(t *testing.T) {
	c := testConfig(t)
	server := start(t, c)
	content := strings.Repeat("shared ", 100_000)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if got := put(t, server, nostr.SecretKey{31: byte(i%2 + 1)}, content); got != 200 {
				t.Errorf("upload %d: %d", i, got)
			}
		})
	}
	all.Wait()
	if got := files(t, c); !slices.Equal(got, []string{"blobs/" + guild.Sum([]byte(content)).Hex()}) {
		t.Errorf("stored: %v", got)
	}
}

func TestBlobsSurviveRestart(t *testing.T) {
	c := testConfig(t)
	first, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(first)
	put(t, server, alice, "kept")
	server.Close()
	first.Close()
	server = start(t, c)
	list := server.URL + "/list/" + nostr.GetPublicKey(alice).Hex()
	if _, body, _ := do(t, "GET", list, header(t, alice, nostr.Tag{"t", "list"}, later()), nil); !strings.Contains(body, guild.Sum([]byte("kept")).Hex()) {
		t.Errorf("list after the restart: %s", body)
	}
}

func FuzzAuthorization(f *testing.F) {
	f.Add(uploadHeader(f, alice, "x"), "127.0.0.1:80")
	f.Add("Nostr e30=", "x")
	f.Add("Nostr "+base64.StdEncoding.EncodeToString([]byte(`{"kind":24242,"tags":[["t","upload"],["expiration"]]}`)), "")
	f.Fuzz(func(t *testing.T, authorization, host string) {
		r := httptest.NewRequestWithContext(context.Background(), "PUT", "/upload", nil)
		r.Host = host
		r.Header.Set("Authorization", authorization)
		a, err := authorize(r, verbUpload, time.Now())
		if err == nil && a.pubkey != nostr.GetPublicKey(alice) {
			t.Errorf("an authorization by %s out of nothing", a.pubkey)
		}
	})
}
