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

// ServerToken is the token in the configuration of clients. A proxy in front of the server requires
// a token. The server accepts every token: it protects nothing.
const ServerToken = "weir"

// ServerSpec configures an embedded API server.
type ServerSpec struct {
	Pods       int
	Population string // the kind of pods, see apiserver.Options
	Churn      Rate   // changed pods per second
	Seed       uint64
	Listen     string     // the address, see apiserver.Options
	Resources  []Resource // custom resources to serve
	// TLS makes the server serve TLS, like every kube-apiserver, with the certificate and key in the
	// files CertFile and KeyFile. If these are empty, a new CA issues the certificate.
	TLS               bool
	CertFile, KeyFile string
	AuditLog          string // the file of the audit log; empty: none
	// WatchBuffer limits how many changes may wait for a watch; the server closes a watch with more.
	// See apiserver.Faults. 0: no limit.
	WatchBuffer int
	// Whole makes the server build each LIST in memory before it sends the LIST.
	Whole bool
}

// Rate is a number that may be infinite. JSON cannot represent infinity, so Rate is encoded as
// text.
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

// Resource is a custom resource whose objects have a status.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
}

// ServerReady is the first line that the child sends: the server's address, or why it did not
// start.
type ServerReady struct {
	URL string
	CA  []byte // the certificates to trust; empty if it serves plain HTTP
	// Failure is the reason why the server did not start, or empty.
	Failure string
	// Address is the reason why ServerSpec.Listen is invalid, or empty if Failure has another cause.
	Address string
}

// Server is an embedded API server in a child process, whose memory and CPU do not count as this
// process's. This package does not link the server; the child links it in package embedded.
type Server struct {
	URL     string
	ca      []byte
	process *Child
}

// StartServer starts a server in a child that runs this executable, which must serve ServerRole. It
// returns when the server answers. The server ends with Close, with ctx or with this process. If
// the server reports an error, StartServer returns this error. An error about the address to listen
// on wraps a net.AddrError, like the error of net.Listen.
func StartServer(ctx context.Context, spec ServerSpec) (*Server, error) {
	return StartServerProgram(ctx, "", spec)
}

// StartServerProgram is like StartServer, but the child runs the program file, which must serve
// ServerRole.
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
		_ = p.Stop() // Stop returns the failure that the child has reported
		if r.Address != "" {
			return nil, fmt.Errorf("%s: %w", r.Failure, &net.AddrError{Err: r.Address, Addr: spec.Listen})
		}
		return nil, errors.New(r.Failure)
	}
	return &Server{URL: r.URL, ca: r.CA, process: p}, nil
}

// Config returns a client's configuration for the server, without a limit on its request rate.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: s.URL, BearerToken: ServerToken, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca}, QPS: -1}
}

// Wait blocks until the server has ended, and returns the reason. Another goroutine may call Close.
func (s *Server) Wait() error {
	var nothing struct{} // a server sends no second line
	return s.process.Receive(&nothing)
}

// Close stops the server and waits until it has ended.
func (s *Server) Close() error { return s.process.Stop() }
