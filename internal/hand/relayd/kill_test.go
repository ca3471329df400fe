package relayd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
	"guild/internal/hand/blossom"
	"guild/internal/hand/key"
)

// relayDir names the variable that makes the test binary a relay in that directory instead of running tests.
const relayDir = "RELAYD_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(relayDir); dir != "" {
		serveUntilKilled(dir)
	}
	m.Run()
}

// serveUntilKilled prints the relay's two addresses and serves until its standard input ends.
func serveUntilKilled(dir string) {
	r, err := Open(Config{Dir: dir, Addr: "127.0.0.1:0", Now: time.Now})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	fmt.Println(r.URL(), r.HTTP())
	fmt.Fprintln(os.Stderr, r.Run(context.Background()))
	os.Exit(1)
}

// process is a relay in its own process.
type process struct {
	url, http string
	kill      func()
	gone      chan struct{} // closed by kill
}

func startProcess(t *testing.T, dir string) process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), relayDir+"="+dir)
	cmd.Stderr = t.Output()
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	kill := sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
		close(gone)
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	urls := strings.Fields(line)
	if err != nil || len(urls) != 2 {
		t.Fatalf("the relay says %q, %v", line, err)
	}
	return process{urls[0], urls[1], kill, gone}
}

// acknowledged lists the events and blobs that a relay has acknowledged.
type acknowledged struct {
	mu     sync.Mutex
	events []nostr.ID
	blobs  []guild.Hash

	missing int           // acknowledgements until enough
	enough  chan struct{} // closed then
}

// expect starts a new count.
func (a *acknowledged) expect(n int) (enough <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missing, a.enough = n, make(chan struct{})
	return a.enough
}

func (a *acknowledged) event(id nostr.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, id)
	a.count()
}

func (a *acknowledged) blob(h guild.Hash) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blobs = append(a.blobs, h)
	a.count()
}

func (a *acknowledged) count() {
	if a.missing--; a.missing == 0 {
		close(a.enough)
	}
}

// publishUntilKilled publishes events, one after the other, until the relay is gone.
func publishUntilKilled(t *testing.T, url string, secret nostr.SecretKey, a *acknowledged) {
	conn, _, err := websocket.Dial(t.Context(), url, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		e := sign(t, secret, nostr.Event{Kind: 1, Content: rand.Text() + strings.Repeat("x", 3000)})
		if conn.Write(t.Context(), websocket.MessageText, []byte(`["EVENT",`+encode(t, e)+`]`)) != nil {
			return
		}
		_, b, err := conn.Read(t.Context())
		if err != nil {
			return
		}
		if !strings.HasPrefix(string(b), `["OK","`+e.ID.Hex()+`",true`) {
			t.Errorf("the relay says %.200s", b)
			return
		}
		a.event(e.ID)
	}
}

// uploadUntilKilled uploads blobs, one after the other, until the server is gone.
func uploadUntilKilled(t *testing.T, server string, a *acknowledged) {
	for {
		content := []byte(rand.Text() + strings.Repeat("y", 100<<10))
		if upload(t, server, bytes.NewReader(content), content) != nil {
			return
		}
		a.blob(guild.Sum(content))
	}
}

func upload(t *testing.T, server string, body io.Reader, content []byte) error {
	client := blossom.Client{Signer: key.NewSigner(key.NewSecret(testKeys[0])), Now: time.Now, AllowLoopback: true}
	_, err := client.Upload(t.Context(), server, body, int64(len(content)), guild.Sum(content))
	return err
}

// uploadHalf sends half of a blob, and then nothing until the server is gone.
func uploadHalf(t *testing.T, p process, content []byte, half chan<- struct{}) {
	r, w := io.Pipe()
	go func() {
		w.Write(content[:len(content)/2])
		close(half)
		<-p.gone
		w.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if err := upload(t, p.http, r, content); err == nil {
		t.Error("half a blob was taken")
	}
}

func TestKilledRelayLosesNothing(t *testing.T) {
	dir := t.TempDir()
	a := &acknowledged{}
	halves := [][]byte{}
	for round := range 6 {
		p := startProcess(t, dir)
		enough := a.expect(between(t, 1, 60))
		var clients sync.WaitGroup
		for _, secret := range testKeys {
			clients.Go(func() { publishUntilKilled(t, p.url, secret, a) })
		}
		clients.Go(func() { uploadUntilKilled(t, p.http, a) })
		content, half := bytes.Repeat([]byte{byte(round)}, 8<<20), make(chan struct{})
		halves = append(halves, content)
		clients.Go(func() { uploadHalf(t, p, content, half) })
		<-half
		<-enough
		p.kill()
		clients.Wait()
	}
	t.Logf("%d events and %d blobs were acknowledged", len(a.events), len(a.blobs))
	c := testConfig(t)
	c.Dir = dir
	r, _ := start(t, c)
	for _, id := range a.events {
		if n, err := r.store.count(t.Context(), []nostr.Filter{{IDs: []nostr.ID{id}}}); n != 1 || err != nil {
			t.Errorf("event %.8s is lost, %v", id.Hex(), err)
		}
	}
	checkBlobs(t, r, a.blobs, halves)
}

// between returns a random number from least to most.
func between(t *testing.T, least, most int) int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(int64(most-least+1)))
	if err != nil {
		t.Fatal(err)
	}
	return least + int(n.Int64())
}

// checkBlobs fetches the acknowledged blobs, and checks that all listed blobs are whole.
func checkBlobs(t *testing.T, r *Relay, acknowledged []guild.Hash, halves [][]byte) {
	t.Helper()
	for _, h := range acknowledged {
		if status, body := fetch(t, r.HTTP()+"/"+h.Hex()); status != http.StatusOK || guild.Sum(body) != h {
			t.Errorf("blob %.8s: status %d, %d bytes", h.Hex(), status, len(body))
		}
	}
	for _, content := range halves {
		if status, _ := fetch(t, r.HTTP()+"/"+guild.Sum(content).Hex()); status != http.StatusNotFound {
			t.Errorf("half a blob: status %d", status)
		}
	}
	files, err := filepath.Glob(filepath.Join(r.config.Dir, "blobs", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if filepath.Base(filepath.Dir(name)) == "blobs" && (err != nil || guild.Sum(b).Hex() != filepath.Base(name)) {
			t.Errorf("%s has %d bytes of something else, %v", name, len(b), err)
		}
		if filepath.Base(filepath.Dir(name)) == "temp" {
			t.Errorf("%s is left over", name)
		}
	}
}

func fetch(t *testing.T, url string) (status int, body []byte) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}
