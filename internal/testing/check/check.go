// Package check has the two checks that most tests make, so that each is one line.
package check

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// NoError ends the test if err is not nil. Like Fatal, it must be called by the test's goroutine.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal reports an error if got is not want. The message starts with what was compared: a format
// and its arguments, or nothing.
func Equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	if got == want {
		return
	}
	subject := "got"
	if len(what) > 0 {
		subject = fmt.Sprintf(what[0].(string), what[1:]...) + ":"
	}
	form := "%s %+v, want %+v"
	switch text := fmt.Sprint(got, want); {
	case strings.Contains(text, "\n"):
		form = "%s\n%+v\nwant\n%+v"
	case reflect.TypeOf(got) == reflect.TypeFor[string]():
		form = "%s %q, want %q"
	}
	t.Errorf(form, subject, got, want)
}
