package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// ServerRole is the role of a child process that is an embedded API server.
const ServerRole = "apiserver"

// ServerToken is the token of callers of a server with [ServerSpec.Metrics]. It protects nothing.
const ServerToken = "bench"

// ServerSpec configures the server.
type ServerSpec struct {
	Pods       int
	Population string // of these pods, see apiserver.Options
	Churn      Rate   // changed pods per second
	Seed       uint64
	Listen     string     // the address, see apiserver.Options; not with Metrics
	Resources  []Resource // custom resources to serve
	// Metrics makes the server answer /metrics, and Config return a token, which a proxy in front of
	// it requires. The server accepts every token.
	Metrics bool
	// TLS makes a server with Metrics serve TLS, like every kube-apiserver.
	TLS bool
	// WatchBuffer closes watches with more than this many waiting changes; see apiserver.Faults. 0:
	// none.
	WatchBuffer int
	// Whole builds each LIST in memory before it is sent.
	Whole bool
}

// Rate is a number that may be infinite, which JSON cannot represent.
type Rate float64

// MarshalText returns the number in Go's format.
func (r Rate) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(r), 'g', -1, 64), nil
}

// UnmarshalText parses the result of MarshalText.
func (r *Rate) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	*r = Rate(v)
	return err
}

// Resource is a custom resource with a status.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
}

// ServerReady is the child's first line: its address, or its error.
type ServerReady struct {
	URL string
	CA  []byte // of its certificate; empty: it serves plain HTTP
	// Failure is why the server could not be started, or empty.
	Failure string
	// Address is the error of ServerSpec.Listen if it is the cause, or empty.
	Address string
}

// Server is an embedded API server in a child process, so that its memory and CPU do not count as
// this process's. This package does not link the server: the child links package embedded.
type Server struct {
	URL     string
	ca      []byte
	token   string
	process *Child
}

// StartServer starts a server in this program, which must serve ServerRole as its own child, and
// returns when it answers. The server ends with Close, with ctx or with this process. An error is
// the server's own message; if that is about the address to listen on, the error wraps a
// net.AddrError, like that of net.Listen.
func StartServer(ctx context.Context, spec ServerSpec) (*Server, error) {
	return StartServerProgram(ctx, "", spec)
}

// StartServerProgram is like StartServer, for another program that serves ServerRole instead of
// this one.
func StartServerProgram(ctx context.Context, file string, spec ServerSpec) (*Server, error) {
	p, err := start(ctx, file, ServerRole, nil, nil, spec)
	if err != nil {
		return nil, err
	}
	var r ServerReady
	if err := p.Receive(&r); err != nil {
		return nil, err
	}
	if r.Failure != "" {
		_ = p.Stop() // it ends with the failure that it has reported
		if r.Address != "" {
			return nil, fmt.Errorf("%s: %w", r.Failure, &net.AddrError{Err: r.Address, Addr: spec.Listen})
		}
		return nil, errors.New(r.Failure)
	}
	s := &Server{URL: r.URL, ca: r.CA, process: p}
	if spec.Metrics {
		s.token = ServerToken
	}
	return s, nil
}

// Config returns a client's configuration for the server, without a limit on its request rate.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: s.URL, BearerToken: s.token, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca}, QPS: -1}
}

// Wait blocks until the server has ended, and returns the reason. Close may be called meanwhile.
func (s *Server) Wait() error {
	var nothing struct{} // after its first line a server sends no lines
	return s.process.Receive(&nothing)
}

// Close ends the server and waits for its end.
func (s *Server) Close() error { return s.process.Stop() }
