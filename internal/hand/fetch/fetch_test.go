package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"guild"
	"guild/internal/hand/blossom"
	"guild/internal/hand/dial"
)

// site is an https server named example.com, and a client that may fetch from it.
type site struct {
	*httptest.Server
	Client
	reached atomic.Int64 // requests for paths that must not be fetched
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	mux := http.NewServeMux()
	mux.HandleFunc("/file.csv", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a,b\n") })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/file.csv", http.StatusFound) })
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/home", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.URL+"/secret", http.StatusFound) // https://127.0.0.1:…
	})
	mux.HandleFunc("/clear", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.com/secret", http.StatusFound)
	})
	mux.HandleFunc("/secret", func(http.ResponseWriter, *http.Request) { s.reached.Add(1) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			w.Write(make([]byte, 64<<10))
		}
	})
	mux.HandleFunc("/announced", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99999999") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("a"))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/zipped", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write([]byte("\x1f\x8bnot to be opened"))
	})
	s.Server = httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	address := s.Listener.Addr().String()
	s.Client = Client{
		Hosts: []string{"example.com"}, Size: 1 << 20, Time: 2 * time.Minute,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) { return dial.Any(ctx, network, address) },
		TLS:  s.Server.Client().Transport.(*http.Transport).TLSClientConfig,
	}
	return s
}

func TestFetchFromAllowedHost(t *testing.T) {
	s := newSite(t)
	for url, want := range map[string]string{
		"https://example.com/file.csv":      "a,b\n",
		"https://example.com:443/file.csv":  "a,b\n",
		"https://EXAMPLE.com/file.csv#part": "a,b\n",
		"https://example.com/moved":         "a,b\n",
		"https://example.com/zipped":        "\x1f\x8bnot to be opened",
	} {
		var got bytes.Buffer
		if n, err := s.Fetch(t.Context(), url, &got); err != nil || got.String() != want || n != int64(len(want)) {
			t.Errorf("%s: %q, %v", url, got.String(), err)
		}
	}
}

func TestRefusalBeforeRequest(t *testing.T) {
	s := newSite(t)
	s.Dial = func(context.Context, string, string) (net.Conn, error) {
		t.Error("a connection was made")
		return nil, errors.New("no")
	}
	for url, says := range map[string]string{
		"https://evil.example/x":                           `this provider does not fetch from "evil.example": it fetches from example.com`,
		"https://sub.example.com/x":                        `this provider does not fetch from "sub.example.com"`,
		"https://example.com.evil/x":                       `does not fetch from "example.com.evil"`,
		"https://example.com.:443/x":                       `does not fetch from "example.com."`,
		"https://example.com:8443/x":                       `does not fetch from "example.com:8443"`,
		"http://example.com/x":                             "https only",
		"file:///etc/passwd":                               "is not a URL that can be fetched",
		"https://example.com@evil/x":                       "is not a URL that can be fetched",
		"https://user:pw@example.com/x":                    "is not a URL that can be fetched",
		"https:///x":                                       "is not a URL that can be fetched",
		"blob:xyz":                                         "is not a blob",
		"blob:" + strings.Repeat("a", 64):                  errNoServer.Error(),
		"https://example.com/" + strings.Repeat("x", 3000): "too long",
	} {
		_, err := s.Fetch(t.Context(), url, io.Discard)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v, want %q", url, err, says)
		}
		if checked := s.Check(url); checked == nil || checked.Error() != err.Error() {
			t.Errorf("%.60s: asked beforehand it is %v", url, checked)
		}
	}
	if err := (Client{}).Check("https://example.com/"); err == nil || !strings.Contains(err.Error(), "fetches from no host") {
		t.Errorf("%v", err)
	}
}

func TestHostileServers(t *testing.T) {
	for name, c := range map[string]struct {
		path, says string
		time       time.Duration
	}{
		"redirects to this machine":        {"/home", `it redirects to "https://127.0.0.1:`, 0},
		"redirects to http":                {"/clear", `it redirects to "http://example.com", which is not followed`, 0},
		"redirects for ever":               {"/round", "redirects too often", 0},
		"an endless body":                  {"/endless", errTooLarge.Error(), 0},
		"announces too much":               {"/announced", "99999999 bytes: " + errTooLarge.Error(), 0},
		"a body that does not end":         {"/slow", "it took longer than 300ms", 300 * time.Millisecond},
		"what is not there":                {"/nothing", "404 Not Found", 0},
		"what is not there, under example": {"/" + strings.Repeat("b", 64), "404 Not Found", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			if c.time > 0 {
				s.Time = c.time
			}
			began := time.Now()
			var got bytes.Buffer
			_, err := s.Fetch(t.Context(), "https://example.com"+c.path, &got)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if got.Len() > int(s.Size) || time.Since(began) > time.Minute || s.reached.Load() != 0 {
				t.Errorf("%d bytes in %s, %d secrets", got.Len(), time.Since(began), s.reached.Load())
			}
		})
	}
}

func TestAllowedNameWithPrivateAddress(t *testing.T) {
	s := newSite(t)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	s.Dial = nil
	s.Client.TLS = &tls.Config{InsecureSkipVerify: true} // so that nothing but the address is in the way
	for _, host := range []string{"localhost:" + port, "127.0.0.1:" + port, "10.0.0.1", "169.254.169.254"} {
		s.Hosts = []string{host}
		_, err := s.Fetch(t.Context(), "https://"+host+"/secret", io.Discard)
		if !errors.Is(err, dial.ErrPrivateAddress) {
			t.Errorf("%s: %v", host, err)
		}
		if want := "fetch from " + host + ": the address of the host is not public"; err == nil || err.Error() != want {
			t.Errorf("it says %v, want %q", err, want)
		}
	}
	if s.reached.Load() != 0 {
		t.Error("the secret was reached")
	}
}

func TestErrorsHideAddresses(t *testing.T) {
	closed := newSite(t)
	closed.Server.Close()
	lookup := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "example.com", Server: "10.0.0.53:53", IsNotFound: true}}
	for what, dial := range map[string]dial.Func{
		"closed port":      closed.Dial,
		"no such name":     func(context.Context, string, string) (net.Conn, error) { return nil, lookup },
		"a private blob's": nil,
	} {
		c := closed.Client
		c.Dial = dial
		location, want := "https://example.com/file.csv", "fetch from example.com: the host could not be reached"
		if dial == nil {
			location = "https://10.1.2.3/" + strings.Repeat("a", 64)
			c.Blobs, want = &blossom.Client{}, "blob aaaaaaaaaaaaaaaa: the address of the host is not public"
		}
		if _, err := c.Fetch(t.Context(), location, io.Discard); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
}

func TestFetchBlob(t *testing.T) {
	blob := []byte("a blob")
	serve := func(answer http.HandlerFunc) string {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		return server.URL
	}
	empty := serve(http.NotFound)
	lies := serve(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "no blob") })
	full := serve(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/"+guild.Sum(blob).Hex()) {
			w.Write(blob)
		}
	})
	fetch := func(location string, servers ...string) (string, error) {
		var got bytes.Buffer
		c := Client{Blobs: &blossom.Client{Allow: hosts(servers)}, Servers: servers}
		_, err := c.Fetch(t.Context(), location, &got)
		return got.String(), err
	}
	named := "blob:" + guild.Sum(blob).Hex()
	if got, err := fetch(named, empty, full); err != nil || got != string(blob) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := fetch(named, lies, full); !errors.Is(err, blossom.ErrWrongContent) {
		t.Errorf("a lie is %v", err)
	}
	if _, err := fetch(named, empty); err == nil {
		t.Error("nothing was found")
	}
	there := full + "/" + guild.Sum(blob).Hex() + ".txt"
	if got, err := fetch(there, full); err != nil || got != string(blob) {
		t.Errorf("at its URL: %q, %v", got, err)
	}
	if _, err := fetch(there); err == nil || !strings.Contains(err.Error(), "https only") {
		t.Errorf("at somebody else's server without TLS: %v", err)
	}
	if _, err := fetch(strings.Replace(there, "http:", "https:", 1)); !errors.Is(err, dial.ErrPrivateAddress) {
		t.Errorf("at somebody else's private address: %v", err)
	}
}

func hosts(urls []string) (hosts []string) {
	for _, u := range urls {
		hosts = append(hosts, strings.TrimPrefix(u, "http://"))
	}
	return hosts
}

// FuzzCheck wants every accepted location to be https on an allowed host, or a hash.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{"https://example.com/a", "https://example.com:443@evil/", "blob:00", "https://EXAMPLE.COM\\@evil/", "https://[::1]/"} {
		f.Add(s)
	}
	c := Client{Hosts: []string{"example.com"}}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := c.parse(s)
		if err == nil && (target.url == nil || target.url.Scheme != "https" || !strings.EqualFold(target.url.Hostname(), "example.com")) {
			t.Errorf("%q leads to %v", s, target.url)
		}
	})
}
