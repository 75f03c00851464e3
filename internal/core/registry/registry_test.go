package registry

import (
	"slices"
	"testing"
)

// TestRegistry checks that each value has a unique name, and that a freed name is reused.
func TestRegistry(t *testing.T) {
	var r Registry[int]
	expect := func(want ...Named[int]) {
		t.Helper()
		if got := r.All(); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	expect()
	first := r.Add("pods", 1)
	second := r.Add("pods", 2)
	r.Add("nodes", 3)
	r.Add("pods", 4)
	expect(Named[int]{"nodes", 3}, Named[int]{"pods", 1}, Named[int]{"pods#2", 2}, Named[int]{"pods#3", 4})
	second()
	r.Add("pods", 5)
	first()
	expect(Named[int]{"nodes", 3}, Named[int]{"pods#2", 5}, Named[int]{"pods#3", 4})
	r.Add("pods", 6)
	first() // a second call does not remove the new value with this name
	expect(Named[int]{"nodes", 3}, Named[int]{"pods", 6}, Named[int]{"pods#2", 5}, Named[int]{"pods#3", 4})
}

// TestNamesAreValid checks that invalid UTF-8 in a name is replaced, so that JSON and Prometheus
// accept the name.
func TestNamesAreValid(t *testing.T) {
	var r Registry[int]
	r.Add("a\xffb", 1)
	r.Add("a\xfeb", 2)
	want := []Named[int]{{"a\ufffdb", 1}, {"a\ufffdb#2", 2}}
	if got := r.All(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
