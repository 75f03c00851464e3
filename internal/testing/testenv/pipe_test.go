package testenv

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestListener checks that bytes reach the other side of a connection. It also checks that Dial and
// Accept return when the listener is closed, and that Dial returns when its context ends.
func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen()
		go func() {
			c, err := l.Dial(t.Context(), "", "")
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := c.Write([]byte("hello")); err != nil {
				t.Error(err)
			}
		}()
		c, err := l.Accept()
		check.NoError(t, err)
		if said := make([]byte, 5); true {
			if _, err := c.Read(said); err != nil || string(said) != "hello" {
				t.Errorf("%q, %v", said, err)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Dial(short, "", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("there is no Accept, but Dial returned %v", err)
		}
		go l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("it is closed, but Accept says %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Dial(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("it is closed, but Dial says %v", err)
		}
	})
}
