package figures

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedians(t *testing.T) {
	got := Medians([]Values{{"a": 3, "b": 1}, {"a": 1, "b": 2}, {"a": 2}})
	if diff := cmp.Diff(Values{"a": 2, "b": 1.5}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCell(t *testing.T) {
	v := Values{"x": 1500}
	for u, want := range map[Unit]string{
		Number: "1500", Count: "1,500", Seconds: "1500 s", Nanos: "1.50 µs", Micros: "1.50 ms", Bytes: "1.50 KB",
	} {
		if got := v.Cell("x", u); got != want {
			t.Errorf("unit %d: %q, want %q", u, got, want)
		}
	}
	if got := v.Cell("y", Bytes); got != "-" {
		t.Errorf("of nothing: %q", got)
	}
}
