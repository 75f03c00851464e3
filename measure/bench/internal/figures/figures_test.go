package figures

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestMedians(t *testing.T) {
	got := Medians([]Values{{"a": 3, "b": 1}, {"a": 1, "b": 2}, {"a": 2}})
	if diff := cmp.Diff(Values{"a": 2, "b": 1.5}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRatio(t *testing.T) {
	ours, theirs := Values{"a": 3, "b": 0, "c": 1, "d": 1}, Values{"a": 2, "b": 2, "c": 0, "e": 1}
	for key, want := range map[string]float64{"a": 1.5, "b": 0} {
		if got, ok := ours.Ratio(theirs, key); !ok || got != want {
			t.Errorf("%s: %v, %v; want %v", key, got, ok, want)
		}
	}
	for _, key := range []string{"c", "d", "e"} { // one divides by 0, one side has not got the others
		if got, ok := ours.Ratio(theirs, key); ok {
			t.Errorf("%s: %v", key, got)
		}
	}
}

func TestCell(t *testing.T) {
	v := Values{"x": 1500}
	for u, want := range map[Unit]string{
		Number: "1500", Count: "1,500", Seconds: "1500 s", Nanos: "1.50 µs", Micros: "1.50 ms", Bytes: "1.50 KB",
	} {
		check.Equal(t, v.Cell("x", u), want, "unit %d", u)
	}
	check.Equal(t, v.Cell("y", Bytes), "-", "of nothing")
}
