package mintd

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"guild/cashu"
)

func TestForeignHostOrOriginIsRefused(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	address := strings.TrimPrefix(w.url, "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{address, "", 200},
		{"localhost:" + port, "http://" + address, 200},
		{"page.example:" + port, "", http.StatusMisdirectedRequest},
		{address, "http://page.example", http.StatusForbidden},
		{address, "null", http.StatusForbidden},
		{address, "http://127.0.0.1:1", http.StatusForbidden},
	} {
		for _, path := range []string{"/v1/info", "/v1/mint/quote/bolt11"} {
			method := "GET"
			if path != "/v1/info" {
				method = "POST"
			}
			r, err := http.NewRequest(method, w.url+path, strings.NewReader(`{"amount":1,"unit":"test"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("%s, host %q, origin %q: %s", path, c.host, c.origin, resp.Status)
			}
		}
	}
}

func TestRequestsMustComeOverLoopback(t *testing.T) {
	m, err := Open(t.TempDir(), Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, local := range []net.Addr{nil, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 80}, &net.UnixAddr{Name: "x"}} {
		r := httptest.NewRequest("GET", "/v1/info", nil)
		r.Host = "localhost:80"
		if local != nil {
			r = r.WithContext(contextWith(r.Context(), local))
		}
		answer := httptest.NewRecorder()
		m.Handler().ServeHTTP(answer, r)
		if answer.Code != http.StatusMisdirectedRequest {
			t.Errorf("%v: %d", local, answer.Code)
		}
	}
}

// claims is a request body that says it is large.
type claims struct{ io.Reader }

func TestLargeRequestsAreRefused(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/swap HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n{", strings.TrimPrefix(w.url, "http://"), uint64(1)<<40)
	answer, err := io.ReadAll(conn) // it answers before there is a body, and closes
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 413")) {
		t.Errorf("%.100s, %v", answer, err)
	}
	resp, err := http.Post(w.url+"/v1/swap", "", claims{io.MultiReader(strings.NewReader(`{"x":"`), bytes.NewReader(bytes.Repeat([]byte{'a'}, maxBody)))})
	if err == nil {
		resp.Body.Close()
	}
	if err == nil && resp.StatusCode != http.StatusBadRequest {
		t.Error(resp.Status)
	}
}

func TestLongListsAreRefused(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	n := cashu.MaxProofs + 1
	inputs, many, ys := make(list[cashu.Proof], n), make(list[cashu.Output], n), make(list[cashu.Point], n)
	for i := range n {
		ys[i] = cashu.HashToCurve("x")
		inputs[i].C, many[i].B = ys[i], ys[i]
	}
	w.refused(codeManyIn, "/v1/swap", swapRequest{Inputs: inputs})
	w.refused(codeManyOut, "/v1/swap", swapRequest{Outputs: many})
	w.refused(codeManyOut, "/v1/restore", restoreRequest{many})
	w.refused(codeManyIn, "/v1/checkstate", stateRequest{ys})
	var all states
	w.post("/v1/checkstate", stateRequest{ys[1:]}, &all)
	if len(all.States) != cashu.MaxProofs {
		t.Error(len(all.States))
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	_, w := start(t, t.TempDir(), faucet)
	for _, body := range []string{
		"", "null", "[]", "{", `{"inputs":1}`, `{"inputs":[`, `{"inputs":[null]}`, `{"inputs":[{"C":"00"}]}`, `{"inputs":[],"inputs":[]}`,
		`{"outputs":[{"amount":-1}]}`, `{"outputs":[{"amount":1e3}]}`, "{\"inputs\":[{\"secret\":\"\xff\"}]}", `{"quote":"x"} {}`,
	} {
		for _, path := range []string{"/v1/swap", "/v1/mint/bolt11", "/v1/melt/bolt11", "/v1/mint/quote/bolt11", "/v1/melt/quote/bolt11"} {
			resp, err := http.Post(w.url+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			var r refusal
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err := decode(b, &r); err != nil || resp.StatusCode != http.StatusBadRequest || r.Code == 0 || r.Detail == "" {
				t.Errorf("%s %s: %s %s, %v", path, body, resp.Status, b, err)
			}
		}
	}
	for _, c := range []struct{ method, path string }{{"GET", "/"}, {"GET", "/v1/swap"}, {"PUT", "/v1/info"}, {"POST", "/v1/mint/bolt12"}} {
		if r, ok := w.do(c.method, c.path, nil, nil).(refusal); !ok || r.Code != codeRequest {
			t.Errorf("%s: %+v", c, r)
		}
	}
}

// No body of a request does more than to be refused, or makes money.
func FuzzRequests(f *testing.F) {
	m, err := Open(f.TempDir(), Options{Now: time.Now, Faucet: 8})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { m.Close() })
	paths := []string{"/v1/swap", "/v1/checkstate", "/v1/restore", "/v1/mint/quote/bolt11", "/v1/mint/bolt11", "/v1/melt/quote/bolt11", "/v1/melt/bolt11"}
	point := cashu.HashToCurve("x").String()
	output := `{"amount":1,"id":"` + m.active.ID + `","B_":"` + point + `"}`
	proof := `{"amount":1,"id":"` + m.active.ID + `","secret":"x","C":"` + point + `","witness":"{\"signatures\":[]}"}`
	for i, body := range []string{
		`{"inputs":[` + proof + `],"outputs":[` + output + `]}`, `{"Ys":["` + point + `"]}`, `{"outputs":[` + output + `]}`,
		`{"amount":1,"unit":"test","pubkey":"` + point + `"}`, `{"quote":"x","outputs":[` + output + `],"signature":""}`,
		`{"request":"lnbcrt1","unit":"test","options":{}}`, `{"quote":"x","inputs":[` + proof + `],"outputs":[` + output + `]}`,
	} {
		f.Add(byte(i), body)
	}
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	f.Fuzz(func(t *testing.T, path byte, body string) {
		r := httptest.NewRequest("POST", paths[int(path)%len(paths)], strings.NewReader(body))
		r.Host = "localhost:80"
		answer := httptest.NewRecorder()
		m.Handler().ServeHTTP(answer, r.WithContext(contextWith(r.Context(), local)))
		var got map[string]any
		if err := decode(answer.Body.Bytes(), &got); err != nil || answer.Code != 200 && answer.Code != 400 {
			t.Fatalf("%d %s, %v", answer.Code, answer.Body, err)
		}
		if signed, ok := got["signatures"].([]any); ok && len(signed) > 0 {
			t.Fatalf("the mint signs for nothing: %s", answer.Body)
		}
	})
}
