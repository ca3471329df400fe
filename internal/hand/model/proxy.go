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
// A request over a limit gets status 400, with the reason in the form of an API's error: agents try others again and again.
func (j *Job) Serve(l net.Listener, token string) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &http.Server{
		Handler:           j.proxy(token),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: log.New(io.Discard, "", 0), // what a stranger's program does wrong is not for our log
	}
	_ = s.Serve(&bounded{Listener: l, free: make(chan struct{}, maxConnections)}) // its error is that l is closed
	cancel()
	waiting, stop := context.WithTimeout(context.Background(), farewell)
	defer stop()
	if s.Shutdown(waiting) != nil { // it waits until the requests under way are counted
		s.Close()
	}
}

// farewell bounds the time that ended requests have to be counted.
const farewell = 2 * time.Second

// Endpoint returns the address of the API as a program sees it through a proxy at origin, as "http://127.0.0.1:7777".
func (j *Job) Endpoint(origin string) string { return origin + j.base.Path }

// proxy returns the handler of the requests with this token.
func (j *Job) proxy(token string) http.Handler {
	turn := make(chan struct{}, maxAtOnce)
	pass := &httputil.ReverseProxy{
		Transport: j, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), ErrorHandler: explain,
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
			tell(w, http.StatusUnauthorized, "authentication_error", "this is not the token of the job")
			return
		}
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
			pass.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

// explain answers a request that was not answered by the API.
func explain(w http.ResponseWriter, _ *http.Request, err error) {
	_, limited := errors.AsType[*LimitError](err)
	_, refused := errors.AsType[*RefusedError](err)
	switch {
	case limited, refused:
		tell(w, http.StatusBadRequest, "invalid_request_error", err.Error())
	default: // its text may name what only the owner should see
		tell(w, http.StatusBadGateway, "api_error", "the API cannot be reached")
	}
}

// tell writes an error in the form that both APIs share.
func tell(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": text}})
}

// bounded closes connections for which free has no room.
type bounded struct {
	net.Listener
	free chan struct{}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.free <- struct{}{}:
			return &connection{c, sync.OnceFunc(func() { <-b.free })}, nil
		default:
			c.Close()
		}
	}
}

// connection makes room when it is closed.
type connection struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
