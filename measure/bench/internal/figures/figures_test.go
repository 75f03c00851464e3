package figures

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

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
	for _, key := range []string{"c", "d", "e"} { // c divides by 0; d and e exist on one side only
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

func TestChoose(t *testing.T) {
	all := []string{"a", "b", "c"}
	itself := func(s string) string { return s }
	for _, test := range []struct {
		names, want []string
	}{
		{nil, all},
		{[]string{"c", "a"}, []string{"a", "c"}},
	} {
		if got, err := Choose("letter", all, itself, test.names...); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, %v", test.names, got, err)
		}
	}
	if _, err := Choose("letter", all, itself, "a", "d"); err == nil || !strings.Contains(err.Error(), `no letter "d": there are a, b, c`) {
		t.Errorf("an unknown name: %v", err)
	}
	if !slices.Equal(all, []string{"a", "b", "c"}) {
		t.Errorf("all has become %v", all)
	}
}

func TestStride(t *testing.T) {
	for _, n := range []int{1, 2, 10, 7919, 50_000, 2 * 7919} {
		seen, at := make([]bool, n), 0
		for i := range n {
			if seen[at] {
				t.Fatalf("%d: position %d comes twice within %d steps of %d", n, at, i, Stride(n))
			}
			seen[at] = true
			at = (at + Stride(n)) % n
		}
	}
}

func TestLine(t *testing.T) {
	rows := [][]string{{"sync", "weir", "", "ratio"}, {"µs", "1.50 ms", "", ""}}
	columns := Fit(rows)
	var text strings.Builder
	check.NoError(t, Write(&text, columns, rows...))
	check.Equal(t, text.String(), "sync     weir  ratio\nµs    1.50 ms\n")
	wide := []Column{{Width: 3, Left: true}, {Width: 4}, {Width: 2, Left: true}}
	check.Equal(t, Line(wide, []string{"longer", "1", "ok"}), "longer     1  ok\n")
}

func TestFigures(t *testing.T) {
	all := []Figure{Lower("a", "first", Count), Higher("b", "second", Count), New("c", "  third", Bytes).AtMost(2), New("d", "fourth", Count).RatioAtMost(3)}
	check.Equal(t, Headline(Values{"a": 1, "c": 2e6, "d": 3}, all), "first 1, third 2.00 MB")
	check.Equal(t, Help("%s=%s ", all[:2]), "a=first b=second ")
	if all[0].Better != Smaller || all[1].Better != Larger || all[2].Better != Neither {
		t.Errorf("%+v", all)
	}
	if *all[2].Want.WeirAtMost != 2 || *all[3].Want.RatioAtMost != 3 || all[0].Want != (Want{}) {
		t.Errorf("%+v", all)
	}
}

func TestSpreadOf(t *testing.T) {
	got := SpreadOf([]Values{{"a": 3, "b": 1}, {"a": 1, "b": 2}, {"a": 2}})
	if diff := cmp.Diff(Spread{"a": {1, 3}, "b": {1, 2}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSpreadCell(t *testing.T) {
	s := Spread{
		"near": {71.2e6, 78.9e6}, "far": {998e6, 1.02e9}, "plain": {1.5, 2}, "same": {4.001, 4.002}, "count": {50_000, 60_000},
	}
	for _, tc := range []struct {
		key  string
		unit Unit
		want string
	}{
		{"near", Bytes, "71.2…78.9 MB"},
		{"far", Bytes, "998 MB…1.02 GB"},
		{"plain", Number, "1.50…2.00"},
		{"same", Number, ""},
		{"count", Count, "50,000…60,000"},
		{"none", Bytes, ""},
	} {
		check.Equal(t, s.Cell(tc.key, tc.unit), tc.want, "%s", tc.key)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cpu, events := 5*time.Second, 0.0
		tracer := StartTrace(10*time.Millisecond, func() Sample {
			cpu, events = cpu+time.Second, events+1
			return Sample{RSSBytes: 7, HeapBytes: -1, CPU: cpu, Events: events}
		})
		time.Sleep(25 * time.Millisecond)
		tracer.Mark(Starts)
		got := tracer.Stop()
		if again := tracer.Stop(); again != got {
			t.Error("a second stop gives another trace")
		}
		// There are samples at 0, 10 and 20 ms and at the end. CPU time before the first sample does not
		// count.
		if n := len(got.Events); n != 4 || len(got.CPUSeconds) != n || len(got.RSSBytes) != n || len(got.HeapBytes) != 0 {
			t.Fatalf("%+v", got)
		}
		if got.CPUSeconds[0] != 1 || got.CPUSeconds[3] != 4 || got.Events[3] != 5 || got.RSSBytes[0] != 7 {
			t.Errorf("%+v", got)
		}
		if len(got.Marks) != 1 || got.Marks[0] != (Mark{25, Starts}) {
			t.Errorf("%+v", got.Marks)
		}
	})
}

// TestLateSample checks that a late sample also replaces the samples that were missed before it.
func TestLateSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		tracer := StartTrace(10*time.Millisecond, func() Sample {
			if looks++; looks > 2 {
				time.Sleep(35 * time.Millisecond)
			}
			return Sample{HeapBytes: 1}
		})
		time.Sleep(100 * time.Millisecond)
		got := tracer.Stop()
		// take is called five times: at 0, 10, 45, 80 and 115 ms. At these times, 1, 2, 5, 9 and 12
		// samples are due.
		if n := len(got.Events); n != 12 || len(got.HeapBytes) != n {
			t.Errorf("%d samples, %d heaps", n, len(got.HeapBytes))
		}
	})
}

func TestNilTracer(t *testing.T) {
	var none *Tracer
	none.Mark(Starts)
	if got := none.Stop(); got != nil {
		t.Errorf("%v", got)
	}
}
