// Package check contains the most common checks of tests. Each check is a function, so that a test
// needs only one line for it.
package check

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// NoError ends the test if err is not nil. Like Fatal, it must be called in the test's goroutine.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ErrorIs reports an error if err does not match target. The message starts with the format and
// arguments in what, which name the failed operation. The caller may omit them.
func ErrorIs(t testing.TB, err, target error, what ...any) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s %v, want %v", subject(what), err, target)
	}
}

// Equal reports an error if got is not equal to want. The message starts with the format and
// arguments in what, which name the compared value. The caller may omit them.
func Equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	if got == want {
		return
	}
	form := "%s %+v, want %+v"
	switch text := fmt.Sprint(got, want); {
	case strings.Contains(text, "\n"):
		form = "%s\n%+v\nwant\n%+v"
	case reflect.TypeOf(got) == reflect.TypeFor[string]():
		form = "%s %q, want %q"
	}
	t.Errorf(form, subject(what), got, want)
}

// subject returns the start of a message.
func subject(what []any) string {
	if len(what) == 0 {
		return "got"
	}
	return fmt.Sprintf(what[0].(string), what[1:]...) + ":"
}
