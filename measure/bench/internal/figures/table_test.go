package figures

import (
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestLine(t *testing.T) {
	rows := [][]string{{"sync", "weir", "", "ratio"}, {"µs", "1.50 ms", "", ""}}
	columns := Fit(rows)
	for i, want := range []string{"sync     weir  ratio\n", "µs    1.50 ms\n"} {
		check.Equal(t, Line(columns, rows[i]), want)
	}
	wide := []Column{{Width: 3, Left: true}, {Width: 4}, {Width: 2, Left: true}}
	check.Equal(t, Line(wide, []string{"longer", "1", "ok"}), "longer     1  ok\n")
}

func TestHeadline(t *testing.T) {
	all := []Figure{New("a", "first", Count), New("b", "second", Count), New("c", "  third", Bytes), New("d", "fourth", Count)}
	check.Equal(t, Headline(Values{"a": 1, "c": 2e6, "d": 3}, all), "first 1, third 2.00 MB")
}
