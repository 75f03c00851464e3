package figures

import (
	"errors"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

var errBroken = errors.New("broken")

func TestAttempt(t *testing.T) {
	if err := Attempt(func() { Check(nil); Must(1, nil); Require(true, errBroken) }); err != nil {
		t.Error(err)
	}
	ended, cleaned := false, false
	err := Attempt(func() {
		defer func() { cleaned = true }()
		Check(errBroken, "step ", 2)
		ended = true
	})
	if !errors.Is(err, errBroken) || err.Error() != "step 2: broken" || ended || !cleaned {
		t.Errorf("%v, ended %v, cleaned up %v", err, ended, cleaned)
	}
	for _, f := range []func(){func() { Must(0, errBroken) }, func() { Require(false, errBroken) }} {
		if err := Attempt(f); err != errBroken {
			t.Error(err)
		}
	}
}

func TestOtherPanics(t *testing.T) {
	defer func() {
		check.Equal(t, recover(), "a bug", "the panic")
	}()
	_ = Attempt(func() { panic("a bug") })
}
