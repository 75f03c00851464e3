// Package figures contains the results of measurements: values by name, their medians over several
// runs, and their output formats. With Attempt, a measurement ends at its first error.
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

// Values are measured values by name.
type Values map[string]float64

// Medians returns the median of each value over all runs that contain the value.
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

// Ratio divides the value of v for a key by the value of others for this key. It returns false if
// one of the values is missing or the value of others is 0.
func (v Values) Ratio(others Values, key string) (ratio float64, ok bool) {
	ours, ok := v[key]
	theirs := others[key]
	if !ok || theirs == 0 {
		return 0, false
	}
	return ours / theirs, true
}

// Cell returns a value as text for a table, or "-" if v lacks the value.
func (v Values) Cell(key string, u Unit) string {
	if value, ok := v[key]; ok {
		return u.Text(value)
	}
	return "-"
}

// Unit is the unit of a value, which determines how the value is written.
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

// Text returns a value, in its unit, as text.
func (u Unit) Text(v float64) string {
	switch u {
	case Count:
		return humanize.Count(int64(math.Round(v)))
	case Seconds:
		if v == 0 {
			return "0 s"
		}
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

// WriteJSON writes a result as indented JSON, as -o json prints it.
func WriteJSON(w io.Writer, result any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(result)
}

// Figure describes one value of a measurement. Key is its name in `-o json`, which is stable.
type Figure struct {
	Key, Label string
	Unit       Unit
	Better     Better
	Want       Want
}

// Better says which values of a figure are better.
type Better uint8

// The values of Better.
const (
	Neither Better = iota // the figure is not compared
	Smaller
	Larger
)

// Want is the required range of a figure. The zero value allows any value.
type Want struct {
	// RatioAtMost is the maximum of weir's value divided by the value of the side that weir is
	// compared with, such as client-go. WeirAtMost is the maximum of weir's value. nil means no
	// maximum.
	RatioAtMost *float64 `json:"ratioAtMost,omitempty"`
	WeirAtMost  *float64 `json:"weirAtMost,omitempty"`
}

// New returns a figure that is not compared.
func New(key, label string, unit Unit) Figure { return Figure{Key: key, Label: label, Unit: unit} }

// Lower returns a figure whose smaller values are better.
func Lower(key, label string, unit Unit) Figure {
	return Figure{Key: key, Label: label, Unit: unit, Better: Smaller}
}

// Higher returns a figure whose larger values are better.
func Higher(key, label string, unit Unit) Figure {
	return Figure{Key: key, Label: label, Unit: unit, Better: Larger}
}

// RatioAtMost returns the figure with the given Want.RatioAtMost.
func (f Figure) RatioAtMost(most float64) Figure {
	f.Want.RatioAtMost = &most
	return f
}

// AtMost returns the figure with the given Want.WeirAtMost.
func (f Figure) AtMost(most float64) Figure {
	f.Want.WeirAtMost = &most
	return f
}

// Help returns a text about figures. It formats the key and the label of each figure with format.
func Help(format string, all []Figure) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, format, f.Key, f.Label)
	}
	return b.String()
}

// Headline returns one line with the first two of the figures that v contains.
func Headline(v Values, all []Figure) string {
	var parts []string
	for _, f := range all {
		if value, ok := v[f.Key]; ok && len(parts) < 2 {
			parts = append(parts, strings.TrimSpace(f.Label)+" "+f.Unit.Text(value))
		}
	}
	return strings.Join(parts, ", ")
}

// Spread contains the smallest and the largest number that several runs have measured for each
// value. The keys are the names of the values.
type Spread map[string][2]float64

// SpreadOf returns the spread of each value over all runs that contain the value.
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

// Cell returns a spread as text for a table, such as "71.2…78.9 MB". If both ends have the same
// unit, it writes the unit once. It returns "" if both ends have the same text or s lacks the
// value.
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
