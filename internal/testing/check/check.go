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

// ErrorIs reports an error if err does not match target. what is a format and its arguments, which
// name the failed operation at the start of the message. what may be empty.
func ErrorIs(t testing.TB, err, target error, what ...any) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s %v, want %v", subject(what), err, target)
	}
}

// Equal reports an error if got is not equal to want. what is a format and its arguments, which
// name the compared value at the start of the message. what may be empty.
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
