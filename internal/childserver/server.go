// Package childserver starts the embedded API server in a child process, so that its memory and CPU
// are not this process's. It does not link the server: package embedded is what the child links.
package childserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/child"
)

// Role is that of the child process.
const Role = "apiserver"

// Token is what a caller of a server with [Spec.Metrics] sends. It guards nothing.
const Token = "bench"

// Spec is what the server holds.
type Spec struct {
	Pods       int
	Population string // of these pods, as apiserver.Options has it
	Churn      Rate   // pods that change in a second
	Seed       uint64
	Listen     string     // the address, as apiserver.Options has it; not with Metrics
	Resources  []Resource // custom resources to serve as well
	// Metrics has the server answer /metrics, and Config return a token, which a proxy in front of it
	// asks for. The server accepts every token.
	Metrics bool
	// TLS has a server with Metrics serve TLS, as every kube-apiserver does.
	TLS bool
	// WatchBuffer closes watches for which more than so many changes wait; see apiserver.Faults. 0:
	// none.
	WatchBuffer int
	// Whole builds each LIST in memory before it is sent.
	Whole bool
}

// Rate is a number that may be infinite, which JSON has none for.
type Rate float64

// MarshalText returns the number as Go writes it.
func (r Rate) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(r), 'g', -1, 64), nil
}

// UnmarshalText reads what MarshalText returns.
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

// Ready is the child's first line: where it serves, or why it does not.
type Ready struct {
	URL string
	CA  []byte // of its certificate; empty: it serves plain HTTP
	// Failure is why the server could not be started; empty: it was.
	Failure string
	// Address is what is wrong with Spec.Listen, if that is why; empty: it is not.
	Address string
}

// Server is an API server in a child process.
type Server struct {
	URL     string
	ca      []byte
	token   string
	process *child.Process
}

// Start starts a server in this program, which has to serve Role as its own child, and returns when
// it answers. The server ends with Close, with ctx or with this process.
func Start(ctx context.Context, spec Spec) (*Server, error) {
	p, err := child.Start(ctx, Role, nil, nil, spec)
	if err != nil {
		return nil, err
	}
	return ready(p, spec)
}

// StartProgram starts a server in another program, which serves Role, in place of this one. All
// else is as in Start.
func StartProgram(ctx context.Context, file string, spec Spec) (*Server, error) {
	p, err := child.StartProgram(ctx, file, Role, nil, nil, spec)
	if err != nil {
		return nil, err
	}
	return ready(p, spec)
}

// ready waits until the server answers. An error is in the server's own words; where it is about
// the address to listen on it wraps a net.AddrError, as that of net.Listen does.
func ready(p *child.Process, spec Spec) (*Server, error) {
	var r Ready
	if err := p.Receive(&r); err != nil {
		return nil, err
	}
	if r.Failure != "" {
		_ = p.Stop() // it ends with the failure that it has told
		if r.Address != "" {
			return nil, fmt.Errorf("%s: %w", r.Failure, &net.AddrError{Err: r.Address, Addr: spec.Listen})
		}
		return nil, errors.New(r.Failure)
	}
	s := &Server{URL: r.URL, ca: r.CA, process: p}
	if spec.Metrics {
		s.token = Token
	}
	return s, nil
}

// Config returns a client's configuration for the server, without a limit on its request rate.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: s.URL, BearerToken: s.token, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca}, QPS: -1}
}

// Wait blocks until the server has ended, and returns why. Close may be called meanwhile.
func (s *Server) Wait() error {
	var nothing struct{} // a server says no more than that it is ready
	return s.process.Receive(&nothing)
}

// Close ends the server and waits for its end.
func (s *Server) Close() error { return s.process.Stop() }
