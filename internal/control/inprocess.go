package control

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// InProcess returns a client of a server in the same process, over pipes instead of a socket. hangUp ends the
// server.
func InProcess(ctx context.Context, s *Server) (client *Client, hangUp func()) {
	l := &pipes{incoming: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: s, BaseContext: func(net.Listener) context.Context { return ctx }}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(l) }) // it ends with ErrServerClosed, as it should
	client = &Client{"", &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: l.dial}}}
	return client, func() {
		server.Close()
		serving.Wait()
	}
}

// pipes is a listener that is dialled inside the process.
type pipes struct {
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.incoming <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.incoming:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "in process", Net: "pipe"} }
