package informers

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/tools/embedded"
	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// The roles of child processes.
const (
	roleStub      = "stub"
	roleContender = "contender"
)

// Serve runs in a child process. role is the child's first argument. config returns the
// configuration of the server on the child's command line; Serve calls it only if the specification
// names no server. An unknown role is an error.
func Serve(ctx context.Context, role string, config func() (*rest.Config, error), in io.Reader, out io.Writer) error {
	// If the specification names a server, the client needs no credentials. If it names none, use the
	// command line's server and credentials.
	at := func(url string) (*rest.Config, error) {
		if url != "" {
			return &rest.Config{Host: url, QPS: -1}, nil
		}
		return config()
	}
	switch role {
	case process.ServerRole:
		return embedded.Serve(ctx, in, out)
	case roleStub:
		var s StubSpec
		return process.Serve(ctx, in, out, &s, func(ctx context.Context, send func(any) error) error {
			return figures.Attempt(func() { serveStub(ctx, figures.Must(at(s.Server)), &s, send) })
		})
	case roleContender:
		var s spec
		return process.Serve(ctx, in, out, &s, func(ctx context.Context, send func(any) error) error {
			return figures.Attempt(func() {
				f, traced := contend(ctx, figures.Must(at(cmp.Or(s.Stub, s.Server))), &s)
				figures.Check(send(f))
				if s.Every > 0 {
					figures.Check(send(traced))
				}
			})
		})
	}
	return fmt.Errorf("no such role: %q", role)
}

// contend measures what s asks for, and returns the figures and the trace. The trace is nil if s
// asks for none.
func contend(ctx context.Context, cfg *rest.Config, s *spec) (Figures, *figures.Trace) {
	v, ok := verbNamed(s.Verb)
	figures.Require(ok, fmt.Errorf("no such verb: %q", s.Verb))
	if s.DropIn {
		v = v.DropIn()
	}
	if s.Side == sideFloor {
		return floor(ctx, cfg, s), nil
	}
	sub := newSubject(cfg, s)
	if s.Every > 0 {
		sub.tracer = figures.StartTrace(s.Every, sub.sample)
		defer sub.tracer.Stop()
	}
	f := v.measure(ctx, sub)
	figures.Check(ctx.Err())
	figures.Check(sub.stop())
	return f, sub.tracer.Stop()
}
