package archive_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"guild/internal/nut/archive"
	"guild/internal/nut/host"
)

// served is a running `serve`, with the client of a browser on this machine.
type served struct {
	t     *testing.T
	url   *url.URL // with the token
	http  *http.Client
	end   func() error // Ctrl-C; returns how it ended
	lines *bufio.Reader
}

// serve runs the verb on a tree or bundle.
func serve(t *testing.T, path string, flags ...string) *served {
	t.Helper()
	in, out := io.Pipe()
	p := &host.Program{Name: "nutshell", In: strings.NewReader(""), Out: out, Err: io.Discard, Now: time.Now, Random: rand.Reader}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := runVerb(ctx, p, append([]string{"serve", path, "--port", "0"}, flags...)...)
		out.CloseWithError(errors.Join(err, io.EOF))
		ended <- err
	}()
	end := func() error { cancel(); err := <-ended; ended <- err; return err }
	t.Cleanup(func() { end() })
	s := &served{t: t, end: end, lines: bufio.NewReader(in)}
	line, err := s.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, s.lines)
	if s.url, err = url.Parse(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.http = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s
}

// runVerb runs a verb as the programs do.
func runVerb(ctx context.Context, p *host.Program, args ...string) error {
	for _, cmd := range archive.Commands(p) {
		if cmd.Name() == args[0] {
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(args[1:])
			return cmd.ExecuteContext(ctx)
		}
	}
	return fmt.Errorf("there is no verb %s", args[0])
}

// enter opens the address that was printed, as a person does.
func (s *served) enter() *served {
	s.t.Helper()
	if answer, _ := s.get(s.url.RequestURI()); answer.StatusCode != 200 {
		s.t.Fatal(answer.Status)
	}
	return s
}

func (s *served) get(path string) (*http.Response, string) {
	s.t.Helper()
	return s.ask(http.MethodGet, path, nil)
}

// ask makes a request whose path is sent unchanged.
func (s *served) ask(method, path string, change func(*http.Request)) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.url.Host+"/", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	path, query, _ := strings.Cut(path, "?")
	if r.URL.Opaque, r.URL.RawQuery = path, query; strings.HasPrefix(path, "//") {
		r.URL.Opaque = "//" + s.url.Host + path // else it would name a host
	}
	if change != nil {
		change(r)
	}
	answer, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, string(b)
}

// aTree is a directory with everything that must not be shown.
func aTree(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "task")
	outside := filepath.Join(t.TempDir(), "outside.txt")
	for name, content := range map[string]string{
		"nutshell.json": `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Build <script>alert(1)</script>","summary":"S & <b>"},` +
			`"credentials":{"vault":"./secrets/my-vault.json","encryption":"age","scopes":[{"name":"<i>db</i>","type":"postgresql"}]},"harness":{"constraints":["<u>none</u>"]}}`,
		"context/requirements.md": "Hello </pre><script>alert(2)</script>\n", "files/a b#?%.txt": "odd name", "files/<img src=x onerror=alert(3)>.txt": "x",
		"files/page.html": "<script>alert(4)</script>", "files/binary": "a\x00b", "files/ü.txt": "ü",
		"secrets/my-vault.json": "VAULT", "credentials/vault.enc.json": "VAULT", "Credentials/other": "VAULT", "tests/hidden/h.sh": "HIDDEN", "tests/hidden/.salts.json": "HIDDEN",
		".env": "DOT", ".git/config": "DOT", "files/.secret": "DOT", "files/id_rsa": "KEY", "files/server.PEM": "KEY",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	write(t, outside, "OUTSIDE")
	if err := errors.Join(os.Symlink(outside, filepath.Join(dir, "files", "link")), os.Symlink(filepath.Dir(outside), filepath.Join(dir, "up"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// sum is the hash that a page shows.
func sum(content string) string {
	h := sha256.Sum256([]byte(content))
	return hex.EncodeToString(h[:])
}

func TestServeBundle(t *testing.T) {
	s := serve(t, filepath.Join("..", "..", "..", "nutshell", "testdata", "reference", "full-request.nut")).enter()
	answer, page := s.get("/")
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatal(answer.Status, answer.Header)
	}
	for _, word := range []string{"<h1>", "Completeness", "Files", "context/requirements.md", "KB"} {
		if !strings.Contains(page, word) {
			t.Errorf("no %q on the page", word)
		}
	}
	links := regexp.MustCompile(`href="(/[^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(links) < 5 {
		t.Fatal(page)
	}
	for _, l := range links {
		if answer, _ := s.get(html.UnescapeString(l[1])); answer.StatusCode != 200 {
			t.Errorf("%s: %s", l[1], answer.Status)
		}
	}
}

func TestServeDirectory(t *testing.T) {
	dir := aTree(t)
	s := serve(t, dir).enter()
	write(t, filepath.Join(dir, "files", "later.txt"), "later")
	if _, page := s.get("/"); !strings.Contains(page, "/file/files/later.txt") || !strings.Contains(page, sum("later")) {
		t.Error("a new file is not on the page")
	}
	write(t, filepath.Join(dir, "files", "later.txt"), "even later")
	if _, page := s.get("/file/files/later.txt"); !strings.Contains(page, "<pre tabindex=\"0\" aria-label=\"Content\">even later</pre>") || !strings.Contains(page, sum("even later")) {
		t.Error(page)
	}
	write(t, filepath.Join(dir, "nutshell.json"), "{ <b>")
	if answer, page := s.get("/"); answer.StatusCode != 200 || !strings.Contains(page, "cannot be read") || strings.Contains(page, "<b>") {
		t.Error(page)
	}
	if err := os.Remove(filepath.Join(dir, "nutshell.json")); err != nil {
		t.Fatal(err)
	}
	if answer, page := s.get("/"); answer.StatusCode != 500 || !strings.Contains(page, "no nutshell.json") {
		t.Error(answer.Status, page)
	}
}

func TestServeEscapesMarkup(t *testing.T) {
	s := serve(t, aTree(t)).enter()
	_, index := s.get("/")
	_, file := s.get("/file/context/requirements.md")
	_, named := s.get("/file/" + url.PathEscape("files/<img src=x onerror=alert(3)>.txt"))
	for _, page := range []string{index, file, named} {
		for _, bad := range []string{"<script", "<img", "<b>", "<i>", "<u>", "</pre><"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s is on the page: %s", bad, page)
			}
		}
	}
	if !strings.Contains(index, "Build &lt;script&gt;alert(1)&lt;/script&gt;") || !strings.Contains(named, "&lt;img src=x") || !strings.Contains(file, "alert(2)") {
		t.Error("the text itself is gone")
	}
}

func TestServeFilesAsPlainText(t *testing.T) {
	s := serve(t, aTree(t)).enter()
	for path, want := range map[string]string{
		"files/page.html": "<script>alert(4)</script>", "files/binary": "a\x00b", "files/ü.txt": "ü", "files/a b#?%.txt": "odd name", "nutshell.json": `{"nutshell_version"`,
	} {
		raw, content := s.get("/raw/" + (&url.URL{Path: path}).EscapedPath())
		if raw.StatusCode != 200 || raw.Header.Get("Content-Type") != "text/plain; charset=utf-8" || raw.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(content, want) {
			t.Errorf("%s: %s %v %q", path, raw.Status, raw.Header, content)
		}
		page, _ := s.get("/file/" + (&url.URL{Path: path}).EscapedPath())
		if page.StatusCode != 200 || page.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %s", path, page.Status)
		}
	}
	if _, page := s.get("/file/files/binary"); !strings.Contains(page, "not text") || strings.Contains(page, "<pre") {
		t.Error(page)
	}
}

func TestServeCutsLargeFiles(t *testing.T) {
	dir := aTree(t)
	write(t, filepath.Join(dir, "files", "large"), strings.Repeat("ü", 3<<20))
	s := serve(t, dir).enter()
	if _, page := s.get("/file/files/large"); len(page) > 2<<20 || !strings.Contains(page, "the first 1.0 MB of it") {
		t.Errorf("%d bytes", len(page))
	}
	if answer, raw := s.get("/raw/files/large"); len(raw) != 6<<20 || answer.ContentLength != 6<<20 {
		t.Errorf("%d bytes", len(raw))
	}
}

func TestServeHidesFiles(t *testing.T) {
	s := serve(t, aTree(t)).enter()
	answer, index := s.get("/")
	if answer.StatusCode != 200 || !strings.Contains(index, "10 more are not shown") {
		t.Error(index)
	}
	_, files, _ := strings.Cut(index, "<h2>Files</h2>")
	for _, name := range []string{"my-vault", "vault.enc.json", "h.sh", "salts", ".env", "config\"", "id_rsa", "PEM", "outside"} {
		if strings.Contains(files, name) {
			t.Errorf("%s is on the list", name)
		}
	}
	paths := []string{
		"secrets/my-vault.json", "./secrets/my-vault.json", "credentials/vault.enc.json", "credentials", "Credentials/other", "CREDENTIALS/vault.enc.json",
		"tests/hidden/h.sh", "tests/hidden/.salts.json", "tests/HIDDEN/h.sh", "tests/hidden", ".env", "%2eenv", ".git/config", "files/.secret", "files/id_rsa", "files/server.PEM",
		"files/link", "up/outside.txt", "../outside.txt", "%2e%2e/outside.txt", "..%2foutside.txt", "%2e%2e%2foutside.txt", "files/../.env", "files/%2e%2e/.env",
		"..\\outside.txt", "..%5coutside.txt", "/etc/passwd", "//etc/passwd", "%2fetc/passwd", "....//....//etc/passwd", "files/a%00", "files", "", ".", "..", "./nutshell.json/",
		"files/%252e%252e/.env", "up", "nutshell.json/..", "nutshell.json%00",
	}
	for _, prefix := range []string{"/raw/", "/file/", "/", "/raw//", "/../raw/", "/raw/files/../"} {
		for _, p := range paths {
			if prefix == "/" && p == "" {
				continue
			}
			answer, body := s.get(prefix + p)
			for _, secret := range []string{"VAULT", "HIDDEN", "DOT", "KEY", "OUTSIDE", "root:"} {
				if strings.Contains(body, secret) {
					t.Errorf("%s%s gave %s", prefix, p, secret)
				}
			}
			if answer.StatusCode != 404 {
				t.Errorf("%s%s: %s", prefix, p, answer.Status)
			}
		}
	}
}

func TestServeToken(t *testing.T) {
	s := serve(t, aTree(t))
	if len(s.url.Query().Get("token")) != 48 || s.url.Hostname() != "127.0.0.1" {
		t.Error(s.url)
	}
	token := s.url.Query().Get("token")
	for _, path := range []string{
		"/", "/style.css", "/raw/nutshell.json", "/file/nutshell.json", "/nothing", "/?token=", "/?token=" + strings.Repeat("0", 48), "/?token=" + token[:47], "/?token=" + token + "0",
		"/?Token=" + token, "/raw/nutshell.json#token=" + token,
	} {
		answer, body := s.get(path)
		if answer.StatusCode != 403 || strings.Contains(body, "nut-1") || len(answer.Cookies()) > 0 {
			t.Errorf("%s: %s %s", path, answer.Status, body)
		}
	}
	answer, body := s.get(s.url.RequestURI())
	cookies := answer.Cookies()
	if answer.StatusCode != 200 || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Domain != "" || !strings.Contains(body, `url=/`) {
		t.Errorf("%s %v %s", answer.Status, cookies, body)
	}
	if strings.Contains(body, token) {
		t.Error("the token is on the page")
	}
	if answer, _ := s.get("/"); answer.StatusCode != 200 {
		t.Error(answer.Status)
	}
	s.http.Jar = nil
	answer, _ = s.ask(http.MethodGet, "/", func(r *http.Request) { r.Header.Set("Cookie", cookies[0].Name+"=wrong") })
	if answer.StatusCode != 403 {
		t.Error("a wrong cookie was taken:", answer.Status)
	}
}

func TestServeHostAndOrigin(t *testing.T) {
	s := serve(t, aTree(t)).enter()
	port := s.url.Port()
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"the page itself":         {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:"+port) }, 200},
		"by its other name":       {func(r *http.Request) { r.Host = "localhost:" + port; cookie(s, r) }, 200},
		"a rebound name":          {func(r *http.Request) { r.Host = "evil.example:" + port; cookie(s, r) }, 403},
		"a rebound name, no port": {func(r *http.Request) { r.Host = "evil.example"; cookie(s, r) }, 403},
		"a name like ours":        {func(r *http.Request) { r.Host = "127.0.0.1.evil.example:" + port; cookie(s, r) }, 403},
		"another port":            {func(r *http.Request) { r.Host = "127.0.0.1:1"; cookie(s, r) }, 403},
		"no port":                 {func(r *http.Request) { r.Host = "127.0.0.1"; cookie(s, r) }, 403},
		"a trailing dot":          {func(r *http.Request) { r.Host = "localhost.:" + port; cookie(s, r) }, 403},
		"another page":            {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		"another page here":       {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, 403},
		"a page over TLS":         {func(r *http.Request) { r.Header.Set("Origin", "https://127.0.0.1:"+port) }, 403},
		"a page of nowhere":       {func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"an empty origin":         {func(r *http.Request) { r.Header["Origin"] = []string{""} }, 403},
		"two origins":             {func(r *http.Request) { r.Header["Origin"] = []string{"http://127.0.0.1:" + port, "http://evil"} }, 403},
	} {
		for _, path := range []string{"/", s.url.RequestURI()} {
			answer, body := s.ask(http.MethodGet, path, c.change)
			if answer.StatusCode != c.status || c.status == 403 && (strings.Contains(body, "nut-1") || len(answer.Cookies()) > 0) {
				t.Errorf("%s, %.8s: %s", name, path, answer.Status)
			}
		}
	}
	if answer, _ := s.get("/"); answer.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("other pages may read it")
	}
}

// cookie sends the cookie along, which a browser would not do for another name.
func cookie(s *served, r *http.Request) {
	for _, c := range s.http.Jar.Cookies(s.url) {
		r.AddCookie(c)
	}
}

func TestServeMethods(t *testing.T) {
	s := serve(t, aTree(t)).enter()
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "NONSENSE"} {
		answer, _ := s.ask(method, s.url.RequestURI(), nil)
		if answer.StatusCode != 405 || answer.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %s", method, answer.Status)
		}
	}
	for _, path := range []string{"/", "/raw/nutshell.json", "/file/nutshell.json"} {
		answer, body := s.ask(http.MethodHead, path, nil)
		if answer.StatusCode != 200 || body != "" {
			t.Errorf("HEAD %s: %s %q", path, answer.Status, body)
		}
	}
	answer, body := s.ask(http.MethodPost, "/", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("token=x")); r.ContentLength = 7 })
	if answer.StatusCode != 405 || strings.Contains(body, "nut-1") {
		t.Error(answer.Status)
	}
}

func TestServeHeaders(t *testing.T) {
	s := serve(t, aTree(t))
	for _, path := range []string{"/", s.url.RequestURI(), "/", "/raw/files/page.html", "/nothing", "/style.css"} {
		answer, body := s.get(path)
		policy := answer.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; style-src 'self';") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") ||
			answer.Header.Get("X-Content-Type-Options") != "nosniff" || answer.Header.Get("Referrer-Policy") != "no-referrer" || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, answer.Header)
		}
		if !strings.Contains(answer.Header.Get("Content-Type"), "html") {
			continue
		}
		for _, tag := range regexp.MustCompile(`<[^>]*>`).FindAllString(body, -1) {
			if regexp.MustCompile(`(?i)"[^"/]*//|<script|<iframe|<object|<base|<form|\sstyle=|\son\w+=`).MatchString(tag) {
				t.Errorf("%s: the page loads or runs something: %s", path, tag)
			}
		}
	}
}

// raw speaks HTTP by hand.
func (s *served) raw(request string) string {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.url.Host)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, request)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return fmt.Sprint(answer.StatusCode, string(b))
}

func TestServeOddRequests(t *testing.T) {
	s := serve(t, aTree(t))
	cookie := "Cookie: nutshell-" + s.url.Port() + "=" + s.url.Query().Get("token") + "\r\n"
	host := "Host: " + s.url.Host + "\r\n"
	for name, request := range map[string]string{
		"no host":        "GET / HTTP/1.0\r\n" + cookie + "\r\n",
		"two hosts":      "GET / HTTP/1.1\r\n" + host + "Host: evil\r\n" + cookie + "\r\n",
		"a foreign URL":  "GET http://evil/ HTTP/1.1\r\n" + host + cookie + "\r\n",
		"a tunnel":       "CONNECT evil:80 HTTP/1.1\r\n" + host + cookie + "\r\n",
		"a long header":  "GET / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 100<<10) + "\r\n" + cookie + "\r\n",
		"a raw dot path": "GET /raw/../../../../etc/passwd HTTP/1.1\r\n" + host + cookie + "\r\n",
		"no slash":       "GET raw/.env HTTP/1.1\r\n" + host + cookie + "\r\n",
	} {
		if answer := s.raw(request); strings.HasPrefix(answer, "200") || strings.Contains(answer, "root:") || strings.Contains(answer, "nut-1") {
			t.Errorf("%s: %s", name, answer)
		}
	}
	if answer := s.raw("GET / HTTP/1.1\r\n" + host + cookie + "\r\n"); !strings.HasPrefix(answer, "200") {
		t.Error(answer)
	}
}

func TestServeLoopbackOnly(t *testing.T) {
	s := serve(t, aTree(t))
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		ip, _, err := net.ParseCIDR(a.String())
		if err != nil || ip.String() == "127.0.0.1" {
			continue
		}
		if conn, err := net.DialTimeout("tcp", net.JoinHostPort(ip.String(), s.url.Port()), time.Second); err == nil {
			conn.Close()
			t.Errorf("it listens on %s", ip)
		}
	}
}

func TestServeCleansUp(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	s := serve(t, filepath.Join("..", "..", "..", "nutshell", "testdata", "reference", "full-request.nut")).enter()
	if left, err := os.ReadDir(temporary); err != nil || len(left) == 0 {
		t.Fatal("nothing was unpacked", err)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if conn, err := net.Dial("tcp", s.url.Host); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
}

func TestServeAddressAsJSON(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	p := &host.Program{Name: "nutshell", Out: writer(func(b []byte) { out.Write(b); cancel() }), Now: time.Now, Random: rand.Reader}
	if err := runVerb(ctx, p, "serve", aTree(t), "-p", "0", "--json"); err != nil {
		t.Fatal(err)
	}
	var address struct{ URL string }
	if err := json.Unmarshal(out.Bytes(), &address); err != nil || !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{48}$`).MatchString(address.URL) {
		t.Errorf("%s, %v", out.String(), err)
	}
}

// writer calls a function with what is written.
type writer func([]byte)

// Write implements io.Writer.
func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }
