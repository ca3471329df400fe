package relayd

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
	"guild/internal/hand/blossom"
	"guild/internal/hand/key"
)

func TestHostsAndOrigins(t *testing.T) {
	config := testConfig(t)
	config.Hosts = []string{"Relay.example:7447"}
	config.Origins = []string{"https://page.example"}
	r, _ := start(t, config)
	_, port, _ := net.SplitHostPort(r.listener.Addr().String())
	here := "127.0.0.1:" + port
	for _, tt := range []struct {
		name, host, origin string
		want               int
	}{
		{"our address", here, "", 200},
		{"our name", "localhost:" + port, "", 200},
		{"IPv6 loopback", "[::1]:" + port, "", 200},
		{"a configured host", "relay.example:7447", "", 200},
		{"a rebound name", "evil.example:" + port, "", 421},
		{"our address without its port", "127.0.0.1", "", 421},
		{"another port", "127.0.0.1:1", "", 421},
		{"a suffix", "127.0.0.1:" + port + ".evil.example", "", 421},
		{"our own origin", here, "http://127.0.0.1:" + port, 200},
		{"a configured origin", here, "https://page.example", 200},
		{"a foreign origin", here, "https://evil.example", 403},
		{"a configured origin in clear", here, "http://page.example", 403},
		{"loopback on another port", here, "http://127.0.0.1:1", 403},
		{"the null origin", here, "null", 403},
		{"a foreign origin through a rebound name", "evil.example", "https://evil.example", 421},
	} {
		for _, path := range []string{"/", "/" + zeros} {
			want := tt.want
			if path != "/" && want == 200 {
				want = 404
			}
			if got := knock(t, r, path, tt.host, tt.origin, nil); got != want {
				t.Errorf("%s, %s: %d, want %d", tt.name, path[:1], got, want)
			}
		}
		want := tt.want
		if want == 200 {
			want = 101
		}
		upgrade := http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
			"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		}
		if got := knock(t, r, "/", tt.host, tt.origin, upgrade); got != want {
			t.Errorf("%s, upgrade: %d, want %d", tt.name, got, want)
		}
	}
}

// The relay may listen on any address of loopback, and must allow requests to it.
func TestListenAddressIsAllowed(t *testing.T) {
	config := testConfig(t)
	config.Addr = "127.0.0.2:0"
	r, _ := start(t, config)
	here := r.listener.Addr().String()
	for _, origin := range []string{"", "http://" + here} {
		if got := knock(t, r, "/", here, origin, nil); got != 200 {
			t.Errorf("origin %q: %d", origin, got)
		}
	}
}

func knock(t *testing.T, r *Relay, path, host, origin string, header http.Header) int {
	t.Helper()
	req, err := http.NewRequest("GET", r.HTTP()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	if header != nil {
		req.Header = header.Clone()
	}
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if allowed := resp.Header.Get("Access-Control-Allow-Origin"); allowed == "*" || resp.StatusCode == 403 && allowed != "" {
		t.Errorf("origin %q got Access-Control-Allow-Origin %q", origin, allowed)
	}
	return resp.StatusCode
}

// A huge announced length must cost nothing, neither in an upload nor in a websocket frame.
func TestHugeLengths(t *testing.T) {
	r, _ := start(t, testConfig(t))
	host := strings.TrimPrefix(r.HTTP(), "http://")
	for _, path := range []string{"/upload", "/media", "/" + zeros} {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 300000000000\r\n\r\nfew", path, host)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if path == "/upload" && resp.StatusCode != http.StatusRequestEntityTooLarge || resp.StatusCode < 400 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", host)
	conn.Write([]byte{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4}) // 2^63-1 bytes follow
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	conn.Write(make([]byte, 1<<20))
	if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the relay waits for the rest of the frame")
	}
	connect(t, r).mustPublish(sign(t, nostr.Generate(), nostr.Event{Kind: 1}))
}

func TestBlobsOnSamePort(t *testing.T) {
	r, _ := start(t, testConfig(t))
	client := blossom.Client{Signer: key.NewSigner(key.NewSecret(nostr.Generate())), Now: time.Now, AllowLoopback: true}
	content := []byte("a bundle")
	url, err := client.Upload(t.Context(), r.HTTP(), bytes.NewReader(content), int64(len(content)), guild.Sum(content))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := client.Download(t.Context(), url, guild.Sum(content), 100, &got); err != nil || got.String() != "a bundle" {
		t.Errorf("%q, %v", got.String(), err)
	}
}

func TestRemoteRelayUsesTLS(t *testing.T) {
	config := testConfig(t)
	config.AllowRemote, config.Addr = true, "127.0.0.1:0"
	config.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	r, _ := start(t, config)
	if !strings.HasPrefix(r.URL(), "wss://") || !strings.HasPrefix(r.HTTP(), "https://") {
		t.Fatalf("%s, %s", r.URL(), r.HTTP())
	}
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	conn, _, err := websocket.Dial(t.Context(), r.URL(), &websocket.DialOptions{HTTPClient: trusting})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	(&peer{t, conn}).mustPublish(sign(t, nostr.Generate(), nostr.Event{Kind: 1}))
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}
