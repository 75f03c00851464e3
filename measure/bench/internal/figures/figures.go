// Package figures holds what measurements give: values by name, their medians over several runs,
// and how they are written. It ends a measurement at its first error, in one place: see Attempt.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
)

// Values are what was measured, by name.
type Values map[string]float64

// Medians returns the median of each value over all runs that have it.
func Medians(runs []Values) Values {
	all := map[string][]float64{}
	for _, run := range runs {
		for key, value := range run {
			all[key] = append(all[key], value)
		}
	}
	m := Values{}
	for key, values := range all {
		slices.Sort(values)
		n := len(values)
		m[key] = (values[(n-1)/2] + values[n/2]) / 2
	}
	return m
}

// Ratio returns a value ÷ the one that others have by the same name. It returns false where the
// first is not there, or the second is 0 or not there.
func (v Values) Ratio(others Values, key string) (ratio float64, ok bool) {
	ours, ok := v[key]
	theirs := others[key]
	if !ok || theirs == 0 {
		return 0, false
	}
	return ours / theirs, true
}

// Cell returns a value as text for a table, or "-" if there is none.
func (v Values) Cell(key string, u Unit) string {
	if value, ok := v[key]; ok {
		return u.Text(value)
	}
	return "-"
}

// Unit says how a value is written.
type Unit uint8

// The units.
const (
	Number  Unit = iota // three significant digits
	Count               // a whole number
	Seconds             //
	Nanos               // nanoseconds
	Micros              // microseconds
	Bytes               // decimal multiples
)

// Text returns a value as text in its unit.
func (u Unit) Text(v float64) string {
	switch u {
	case Count:
		return humanize.Count(int64(math.Round(v)))
	case Seconds:
		return humanize.Seconds(v)
	case Nanos:
		return humanize.Seconds(v / 1e9)
	case Micros:
		return humanize.Seconds(v / 1e6)
	case Bytes:
		return humanize.Bytes(int64(math.Round(v)))
	}
	return humanize.Number(v)
}

// WriteJSON writes a result, indented, as -o json prints it.
func WriteJSON(w io.Writer, result any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(result)
}

// Figure is one value that a measurement has. Key is a promise: it is what `-o json` has.
type Figure struct {
	Key, Label string
	Unit       Unit
	Better     Better
	Want       Want
}

// Better says which of two values of a figure is the better one.
type Better uint8

// What can be better.
const (
	Neither Better = iota // the figure is there to be read, not to be compared
	Smaller
	Larger
)

// Want is what a figure must come to. The zero value is anything.
type Want struct {
	// RatioAtMost bounds weir's figure ÷ the other side's, WeirAtMost weir's alone. Nil: no bound.
	RatioAtMost *float64 `json:"ratioAtMost,omitempty"`
	WeirAtMost  *float64 `json:"weirAtMost,omitempty"`
}

// New returns a figure that is there to be read.
func New(key, label string, unit Unit) Figure { return Figure{Key: key, Label: label, Unit: unit} }

// Lower returns a figure of which the smaller value is the better one.
func Lower(key, label string, unit Unit) Figure {
	return Figure{Key: key, Label: label, Unit: unit, Better: Smaller}
}

// Higher returns a figure of which the larger value is the better one.
func Higher(key, label string, unit Unit) Figure {
	return Figure{Key: key, Label: label, Unit: unit, Better: Larger}
}

// RatioAtMost returns the figure with a bound of weir's value ÷ the other side's.
func (f Figure) RatioAtMost(most float64) Figure {
	f.Want.RatioAtMost = &most
	return f
}

// AtMost returns the figure with a bound of weir's value.
func (f Figure) AtMost(most float64) Figure {
	f.Want.WeirAtMost = &most
	return f
}

// Help lists figures by format, which takes the key and the label.
func Help(format string, all []Figure) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, format, f.Key, f.Label)
	}
	return b.String()
}

// Headline returns the first two figures that a run has, in a line.
func Headline(v Values, all []Figure) string {
	var parts []string
	for _, f := range all {
		if value, ok := v[f.Key]; ok && len(parts) < 2 {
			parts = append(parts, strings.TrimSpace(f.Label)+" "+f.Unit.Text(value))
		}
	}
	return strings.Join(parts, ", ")
}

// Spread is the smallest and the largest of each value over several runs, by name.
type Spread map[string][2]float64

// SpreadOf returns the spread of each value over all runs that have it.
func SpreadOf(runs []Values) Spread {
	s := Spread{}
	for _, run := range runs {
		for key, value := range run {
			least, most := value, value
			if have, ok := s[key]; ok {
				least, most = min(have[0], value), max(have[1], value)
			}
			s[key] = [2]float64{least, most}
		}
	}
	return s
}

// Cell writes a spread for a table, the unit once where both ends have it: "71.2…78.9 MB". It is
// empty where both ends read the same, and where there is none.
func (s Spread) Cell(key string, u Unit) string {
	ends, ok := s[key]
	if !ok {
		return ""
	}
	least, most := u.Text(ends[0]), u.Text(ends[1])
	if least == most {
		return ""
	}
	if a, b := strings.Fields(least), strings.Fields(most); len(a) == 2 && slices.Equal(a[1:], b[1:]) {
		least = a[0]
	}
	return least + "…" + most
}
