package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/testing/check"
)

// task is the specification that the tests send to their children.
type task struct {
	Say   []string
	Fail  string // the child writes this to stderr and ends
	Stay  bool   // the child stays until the parent closes its input
	Shout bool   // the child writes more to stderr than Tail stores
}

// answer is a line that a child sends.
type answer struct{ Role, Said, Env string }

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == Verb {
		if err := beChild(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each child takes a second to end under -race
	goleak.VerifyTestMain(m)
}

func beChild() error {
	var s task
	return Serve(context.Background(), os.Stdin, os.Stdout, &s, func(ctx context.Context, send func(any) error) error {
		for _, word := range s.Say {
			if err := send(answer{Role: os.Args[2], Said: word, Env: os.Getenv("CHILD_TEST")}); err != nil {
				return err
			}
		}
		if s.Shout {
			fmt.Fprintln(os.Stderr, strings.Repeat("shout ", tailSize))
		}
		if s.Fail != "" {
			return errors.New(s.Fail)
		}
		if s.Stay {
			<-ctx.Done()
		}
		return nil
	})
}

func begin(t *testing.T, ctx context.Context, s task) *Child {
	t.Helper()
	p, err := Start(ctx, "singer", nil, []string{"CHILD_TEST=yes"}, s)
	check.NoError(t, err)
	return p
}

func TestChildAnswers(t *testing.T) {
	p := begin(t, t.Context(), task{Say: []string{"do", "re"}, Stay: true})
	for _, want := range []string{"do", "re"} {
		var got answer
		check.NoError(t, p.Receive(&got))
		if got != (answer{"singer", want, "yes"}) {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
	for range 2 {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestChildEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := begin(t, ctx, task{Stay: true})
	cancel()
	if err := p.Receive(&answer{}); err == nil {
		t.Error("a line came")
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestChildReportsCauseOfEnd(t *testing.T) {
	p := begin(t, t.Context(), task{Fail: "no voice", Shout: true})
	err := p.Receive(&answer{})
	if !errors.Is(err, ErrExited) || err.Error() != "singer: process ended early: no voice" {
		t.Errorf("got %v", err)
	}
	if err := p.Stop(); err == nil {
		t.Error("it ended well")
	}
}

func TestChildThatEndsWithoutAnAnswer(t *testing.T) {
	p := begin(t, t.Context(), task{})
	check.ErrorIs(t, p.Receive(&answer{}), ErrExited)
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestServeNeedsASpecification(t *testing.T) {
	for _, in := range []string{"", "{", "no\n"} {
		err := Serve(t.Context(), strings.NewReader(in), &bytes.Buffer{}, &task{}, func(context.Context, func(any) error) error {
			t.Error("it ran")
			return nil
		})
		if err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}

func TestTail(t *testing.T) {
	var w Tail
	check.Equal(t, w.Last(), "", "of nothing")
	fmt.Fprint(&w, "panic: at once\n\ngoroutine 1 [running]:\nmain.go:3\n")
	check.Equal(t, w.Last(), "panic: at once")
	fmt.Fprint(&w, strings.Repeat("x", 3*tailSize), "\n", "error: the end\n\n")
	check.Equal(t, w.Last(), "the end")
	fmt.Fprint(&w, "goroutine 1:\npanic: oh\n\ngoroutine 2 [running]:\nmain.go:3\n")
	check.Equal(t, w.Last(), "panic: oh")
}
