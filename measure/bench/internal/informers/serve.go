package informers

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/tools/embedded"
	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// The roles that a child can have.
const (
	roleStub      = "stub"
	roleContender = "contender"
)

// Serve does the work of a child process. role is the child's first argument. config leads to the
// server of the child's command line; it is called only if the specification names no server. An
// unknown role is an error.
func Serve(ctx context.Context, role string, config func() (*rest.Config, error), in io.Reader, out io.Writer) error {
	// If a specification names a server, that needs no credentials, and the command line's is
	// not asked.
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
			cfg, err := at(s.Server)
			if err != nil {
				return err
			}
			return serveStub(ctx, cfg, &s, send)
		})
	case roleContender:
		var s spec
		return process.Serve(ctx, in, out, &s, func(ctx context.Context, send func(any) error) error {
			url := s.Server
			if s.Stub != "" {
				url = s.Stub
			}
			cfg, err := at(url)
			if err != nil {
				return err
			}
			figures, traced, err := contend(ctx, cfg, &s)
			if err != nil {
				return err
			}
			if err := send(figures); err != nil || s.Every == 0 {
				return err
			}
			return send(traced)
		})
	}
	return fmt.Errorf("no such role: %q", role)
}

// contend measures what s says, and returns the figures and the trace. The trace is nil if s asks
// for none.
func contend(ctx context.Context, cfg *rest.Config, s *spec) (Figures, *figures.Trace, error) {
	v, ok := verbNamed(s.Verb)
	if !ok {
		return nil, nil, fmt.Errorf("no such verb: %q", s.Verb)
	}
	if s.DropIn {
		v = v.DropIn()
	}
	if s.Side == sideFloor {
		f, err := floor(ctx, cfg, s)
		return f, nil, err
	}
	sub, err := newSubject(cfg, s)
	if err != nil {
		return nil, nil, err
	}
	if s.Every > 0 {
		sub.tracer = figures.StartTrace(s.Every, sub.sample)
		defer sub.tracer.Stop()
	}
	f := v.measure(ctx, sub)
	if sub.note(ctx.Err()); sub.err != nil {
		return nil, nil, sub.err
	}
	err = sub.stop()
	return f, sub.tracer.Stop(), err
}
