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
	Pods       int
	Population string  // of these pods, as apiserver.Options has it
	Churn      float64 // pods that change in a second
	Seed       uint64
	// Reviews has the server answer TokenReviews and SubjectAccessReviews, as a proxy in front of
	// it needs, and /metrics: whoever has the token of Config is somebody, who may do everything.
	Reviews bool
	// TLS has a server that answers reviews serve TLS, as every kube-apiserver does.
	TLS bool
	// WatchBuffer closes watches for which more than so many changes wait; see apiserver.Faults. 0:
	// none.
	WatchBuffer int
	// Whole builds each LIST in memory before it is sent.
	Whole bool
}

// ready is the child's first line.
type ready struct {
	URL string
	CA  []byte // of its certificate; empty: it serves plain HTTP
}

// Server is an API server in a child process.
type Server struct {
	URL     string
	ca      []byte
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
	s := &Server{URL: r.URL, ca: r.CA, process: p}
	if spec.Reviews {
		s.token = token
	}
	return s, nil
}

// Config returns a client's configuration for the server, without a limit on its request rate.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: s.URL, BearerToken: s.token, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca}, QPS: -1}
}

// Close ends the server and waits for its end.
func (s *Server) Close() error { return s.process.Stop() }

// Serve is what the child process does. It blocks until ctx ends or the parent wants no more.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var s Spec
	return child.Serve(ctx, in, out, &s, func(ctx context.Context, send func(any) error) error { return serve(ctx, s, send) })
}

func serve(ctx context.Context, s Spec, send func(any) error) error {
	faults := &apiserver.Faults{}
	faults.WatchBuffer(s.WatchBuffer)
	objects, err := apiserver.New(apiserver.Options{Pods: s.Pods, Population: s.Population, Churn: s.Churn, Seed: s.Seed, Faults: faults})
	if err != nil {
		return err
	}
	defer objects.Close()
	if !s.Reviews {
		if err := objects.Start(); err != nil {
			return err
		}
		if err := send(ready{URL: objects.URL()}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	var h http.Handler = objects
	if s.Whole {
		h = whole{h}
	}
	return serveReviews(ctx, h, s.TLS, send)
}

// serveReviews serves the objects, and reviews and metrics in front of them.
func serveReviews(ctx context.Context, objects http.Handler, encrypted bool, send func(any) error) error {
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: reviews{metrics{objects}}, ReadHeaderTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	r, serve := ready{URL: "http://" + l.Addr().String()}, server.Serve
	if encrypted {
		if server.TLSConfig, r.CA, err = selfSigned(); err != nil {
			return errors.Join(err, l.Close())
		}
		r.URL = "https://" + l.Addr().String()
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := send(r); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
