package blossom

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/hand/dial"
)

func TestUploadAndDownload(t *testing.T) {
	server := start(t, testConfig(t))
	client := Client{Signer: signer(alice), Now: time.Now, AllowLoopback: true}
	content := bytes.Repeat([]byte("bundle "), 100_000)
	hash := guild.Sum(content)
	u, err := client.Upload(t.Context(), server.URL+"/", bytes.NewReader(content), int64(len(content)), hash)
	if err != nil {
		t.Fatal(err)
	}
	if u != "http://blobs.example/"+hash.Hex() {
		t.Errorf("the server calls it %s", u)
	}
	u = server.URL + "/" + hash.Hex()
	var got bytes.Buffer
	if n, err := client.Download(t.Context(), u, hash, int64(len(content)), &got); err != nil || n != int64(len(content)) || guild.Sum(got.Bytes()) != hash {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := client.Download(t.Context(), u, guild.Sum(nil), 1<<20, &got); !errors.Is(err, ErrWrongContent) {
		t.Errorf("another hash: %v", err)
	}
	got.Reset()
	if _, err := client.Download(t.Context(), u, hash, 10, &got); !errors.Is(err, ErrTooLarge) || got.Len() > 10 {
		t.Errorf("over the limit: %v, %d bytes", err, got.Len())
	}
	if _, err := client.Upload(t.Context(), server.URL, bytes.NewReader(content), int64(len(content)), guild.Sum(nil)); err == nil {
		t.Error("an upload under another hash was taken")
	}
}

func TestPrivateAddresses(t *testing.T) {
	server := start(t, testConfig(t))
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	hash := guild.Sum([]byte("x"))
	download := func(c Client, base string) error {
		_, err := c.Download(t.Context(), base+"/"+hash.Hex(), hash, 10, &bytes.Buffer{})
		return err
	}
	named := "http://localhost:" + u.Port()
	for name, tt := range map[string]struct {
		client Client
		base   string
		stop   bool
	}{
		"an address":                    {Client{}, server.URL, true},
		"a name for it":                 {Client{}, named, true},
		"IPv6 that holds it":            {Client{}, "http://[::ffff:127.0.0.1]:" + u.Port(), true},
		"loopback that was allowed":     {Client{AllowLoopback: true}, server.URL, false},
		"a host that was allowed":       {Client{Allow: []string{u.Host}}, server.URL, false},
		"its name, which was not":       {Client{Allow: []string{u.Host}}, named, true},
		"another dialer changes naught": {Client{HTTP: http.DefaultClient}, server.URL, true},
	} {
		if err := download(tt.client, tt.base); errors.Is(err, dial.ErrPrivateAddress) != tt.stop {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidURLs(t *testing.T) {
	client := Client{AllowLoopback: true}
	for _, u := range []string{"", "x", "file:///etc/passwd", "ftp://127.0.0.1/x", "http://", "http://user:pw@127.0.0.1/x", "//127.0.0.1/x", "http://[::1", "gopher://x/"} {
		if _, err := client.Download(t.Context(), u, guild.Hash{}, 1, &bytes.Buffer{}); err == nil {
			t.Errorf("%s was followed", u)
		}
	}
}

func TestRedirectsStayOnHost(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/here":
			w.Write([]byte("x"))
		case "/again":
			http.Redirect(w, r, "/here", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		default:
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	client := Client{AllowLoopback: true, Signer: signer(alice), Now: time.Now}
	for path, want := range map[string]bool{"/here": true, "/again": true, "/round": false, "/away": false} {
		_, err := client.Download(t.Context(), server.URL+path, guild.Sum([]byte("x")), 10, &bytes.Buffer{})
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := client.Upload(t.Context(), server.URL, strings.NewReader("x"), 1, guild.Sum([]byte("x"))); err == nil {
		t.Error("the upload was redirected")
	}
	if reached {
		t.Error("the other host was reached")
	}
}

func TestWrongAnswers(t *testing.T) {
	hash := guild.Sum([]byte("x"))
	for name, tt := range map[string]struct {
		answer, want string
	}{
		"another hash":   {`{"sha256":"` + guild.Sum(nil).Hex() + `","url":"http://x/y"}`, ""},
		"no JSON":        {`<html>`, ""},
		"a strange URL":  {`{"sha256":"` + hash.Hex() + `","url":"file:///etc/` + hash.Hex() + `"}`, "own"},
		"URL of another": {`{"sha256":"` + hash.Hex() + `","url":"http://x/y"}`, "own"},
		"endless":        {`{"sha256":"` + strings.Repeat("x", 1<<20), ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(tt.answer)) }))
		client := Client{AllowLoopback: true, Signer: signer(alice), Now: time.Now}
		got, err := client.Upload(t.Context(), server.URL, strings.NewReader("x"), 1, hash)
		if tt.want == "" && err == nil || tt.want == "own" && got != server.URL+"/"+hash.Hex() {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		server.Close()
	}
}
