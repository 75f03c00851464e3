package evidence

import (
	"maps"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weirproject/weir/internal/testing/check"
)

// sameAsPrometheus fails unless a line that Prometheus' parser reads is read alike.
func sameAsPrometheus(t *testing.T, line string) (read bool) {
	t.Helper()
	name := nameOf([]byte(line))
	if name == "" || strings.ContainsAny(line, "\r\n") || strings.HasPrefix(line, "#") {
		return false
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(line + "\n"))
	if err != nil || families[name] == nil {
		return false
	}
	want := labels{}
	for _, pair := range families[name].Metric[0].Label {
		want[pair.GetName()] = pair.GetValue()
	}
	value := families[name].Metric[0].GetUntyped().GetValue()
	l, v, err := parseLine(line[len(name):])
	if err != nil {
		t.Errorf("%q: %v, want %v %v", line, err, want, value)
	} else if !maps.Equal(l, want) || v != value && !(math.IsNaN(v) && math.IsNaN(value)) {
		t.Errorf("%q: %v %v, want %v %v", line, l, v, want, value)
	}
	return true
}

var metricLines = []string{
	`a 1`, "a\t-1.5e3", `a  NaN`, `a +Inf 1700000000000`, `a{} 0`, `a {b="c"} 1`, `a{b="c",} 1`,
	`a{ b = "c" , d="" } 2`,
	`a{b="x\\y\"z\n{},="} 3`, `a{b="ü"}4`,
}

// TestLines: lines are read as Prometheus reads them.
func TestLines(t *testing.T) {
	for _, line := range metricLines {
		if !sameAsPrometheus(t, line) {
			t.Errorf("Prometheus does not read %q", line)
		}
	}
	text, err := os.ReadFile("testdata/kube-apiserver.txt")
	check.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		if sameAsPrometheus(t, strings.TrimSuffix(line, "\n")) {
			n++
		}
	}
	if n < 50 {
		t.Errorf("%d lines of a server were compared", n)
	}
}

// TestMalformedLines: what is no metric is an error.
func TestMalformedLines(t *testing.T) {
	for _, rest := range []string{
		"", " ", " x", " 1 2 3", "{", "{b", "{b=", `{b="`, `{b="\`, `{b="\x"} 1`,
		`{b="c"`, `{b="c" d="e"} 1`,
		`{="c"} 1`, `{b="c",b="d"} 1`, `{b=c} 1`, `{,} 1`, `{b="c"}`,
	} {
		if l, v, err := parseLine(rest); err == nil {
			t.Errorf("%q: %v %v", rest, l, v)
		}
	}
}

// FuzzLine: a line that Prometheus' parser accepts has the same labels and value.
func FuzzLine(f *testing.F) {
	for _, line := range metricLines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) { sameAsPrometheus(t, line) })
}
