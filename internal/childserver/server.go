// Package childserver runs the embedded API server in a child process, so that its memory and CPU
// are not this process's.
package childserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/child"
)

// Role is that of the child process.
const Role = "apiserver"

// Spec is what the server holds.
type Spec struct {
	Pods  int
	Churn float64 // pods that change in a second
	Seed  uint64
	// Reviews has the server answer TokenReviews and SubjectAccessReviews, as a proxy in front of
	// it needs: whoever has the token of Config is somebody, who may do everything.
	Reviews bool
}

// ready is the child's first line.
type ready struct{ URL string }

// Server is an API server in a child process.
type Server struct {
	URL     string
	token   string
	process *child.Process
}

// Start starts a server and returns when it answers. The server ends with Close, with ctx or with
// this process.
func Start(ctx context.Context, spec Spec) (*Server, error) {
	p, err := child.Start(ctx, Role, nil, nil, spec)
	if err != nil {
		return nil, err
	}
	var r ready
	if err := p.Receive(&r); err != nil {
		return nil, err
	}
	s := &Server{URL: r.URL, process: p}
	if spec.Reviews {
		s.token = token
	}
	return s, nil
}

// Config returns a client's configuration for the server, without a limit on its request rate.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: s.URL, BearerToken: s.token, QPS: -1}
}

// Close ends the server and waits for its end.
func (s *Server) Close() error { return s.process.Stop() }

// Serve is what the child process does. It blocks until ctx ends or the parent wants no more.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var s Spec
	return child.Serve(ctx, in, out, &s, func(ctx context.Context, send func(any) error) error { return serve(ctx, s, send) })
}

func serve(ctx context.Context, s Spec, send func(any) error) error {
	objects, err := apiserver.New(apiserver.Options{Pods: s.Pods, Churn: s.Churn, Seed: s.Seed})
	if err != nil {
		return err
	}
	if !s.Reviews {
		defer objects.Close()
		if err := objects.Start(); err != nil {
			return err
		}
		if err := send(ready{URL: objects.URL()}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	return serveReviews(ctx, objects, send)
}

// serveReviews serves the objects, and reviews in front of them.
func serveReviews(ctx context.Context, objects *apiserver.Server, send func(any) error) error {
	defer objects.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: reviews{objects}, ReadHeaderTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := send(ready{URL: "http://" + l.Addr().String()}); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
