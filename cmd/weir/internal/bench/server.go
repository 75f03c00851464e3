package bench

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/cmd/weir/internal/child"
)

// ServerSpec is what an embedded server in a process of its own holds.
type ServerSpec struct {
	Pods  int
	Churn float64 // changes a second
	Seed  uint64
}

// Server is an API server in a child process.
type Server struct {
	URL     string
	process *child.Process
}

// ready is a server's first line.
type ready struct {
	URL string `json:"url"`
}

// StartServer starts an embedded API server in a process of its own, which ends with Close, with ctx or with this
// process. It returns when the server answers.
func StartServer(ctx context.Context, spec ServerSpec) (*Server, error) {
	return start(ctx, roleServer, nil, spec)
}

func start(ctx context.Context, role string, args []string, spec any) (*Server, error) {
	p, err := child.Start(ctx, role, args, nil, spec)
	if err != nil {
		return nil, err
	}
	var r ready
	if err := p.Receive(&r); err != nil {
		return nil, err
	}
	return &Server{URL: r.URL, process: p}, nil
}

// Config is a client's configuration for the server.
func (s *Server) Config() *rest.Config { return &rest.Config{Host: s.URL, QPS: -1} }

// Close ends the server and waits for its end.
func (s *Server) Close() error { return s.process.Stop() }

// serve is the child's side of StartServer.
func serve(ctx context.Context, spec *ServerSpec, send func(any) error) error {
	s, err := apiserver.New(apiserver.Options{Pods: spec.Pods, Churn: spec.Churn, Seed: spec.Seed})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Start(); err != nil {
		return err
	}
	if err := send(ready{URL: s.URL()}); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Close()
}
