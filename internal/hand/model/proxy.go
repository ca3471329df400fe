package model

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"
)

// Limits of a proxy. The program that speaks to it may be a stranger's.
const (
	maxConnections = 64
	maxAtOnce      = 8 // requests; the others wait
)

// Serve passes on the requests that a program makes to l, until l is closed. The program has the token where it would have
// the key: as a bearer or as X-Api-Key. Paths are those of the API. When Serve returns, all connections are closed.
//
// A request over a limit gets status 400, with the reason in the form of an API's error. Agents repeat requests that get other
// statuses, such as 429.
func (j *Job) Serve(l net.Listener, token string) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &http.Server{
		Handler:           j.proxy(token),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: log.New(io.Discard, "", 0), // faults of the program are not logged: it may be a stranger's, and make any number of them
	}
	_ = s.Serve(&limitedListener{Listener: l, slots: make(chan struct{}, maxConnections)}) // its error is that l is closed
	cancel()
	ending, stop := context.WithTimeout(context.Background(), shutdownTime)
	defer stop()
	if s.Shutdown(ending) != nil { // it waits until the cancelled requests are counted
		s.Close()
	}
}

// shutdownTime limits how long Serve waits for its requests to end.
const shutdownTime = 2 * time.Second

// Endpoint returns the address of the API as a program sees it through a proxy at origin, as "http://127.0.0.1:7777".
func (j *Job) Endpoint(origin string) string { return origin + j.base.Path }

// proxy returns the handler of the requests with this token.
func (j *Job) proxy(token string) http.Handler {
	slots := make(chan struct{}, maxAtOnce)
	pass := &httputil.ReverseProxy{
		Transport: j, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), ErrorHandler: writeFailure,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = j.base.Scheme, j.base.Host, ""
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if given == "" {
			given = r.Header.Get("X-Api-Key")
		}
		if subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			writeError(w, http.StatusUnauthorized, "authentication_error", "this is not the token of the job")
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			pass.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

// writeFailure answers a request that the API did not answer.
func writeFailure(w http.ResponseWriter, _ *http.Request, err error) {
	_, limited := errors.AsType[*LimitError](err)
	_, refused := errors.AsType[*RefusedError](err)
	switch {
	case limited, refused:
		writeError(w, http.StatusBadRequest, "invalid_request_error", err.Error())
	default: // its text may name what only the owner should see
		writeError(w, http.StatusBadGateway, "api_error", "the API cannot be reached")
	}
}

// writeError writes an error in the form that both APIs share.
func writeError(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": text}})
}

// limitedListener closes the connections beyond a number of open ones.
type limitedListener struct {
	net.Listener
	slots chan struct{} // has an element for each open connection
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &limitedConn{c, sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			c.Close()
		}
	}
}

// limitedConn is a connection of a limitedListener.
type limitedConn struct {
	net.Conn
	release func() // frees its slot
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
