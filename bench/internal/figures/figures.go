// Package figures holds what measurements give: values by name, their medians over several runs,
// and how they are written.
package figures

import (
	"encoding/json"
	"io"
	"math"
	"slices"

	"github.com/weirproject/weir/internal/quantity"
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
		return quantity.Count(int64(math.Round(v)))
	case Seconds:
		return quantity.Seconds(v)
	case Nanos:
		return quantity.Seconds(v / 1e9)
	case Micros:
		return quantity.Seconds(v / 1e6)
	case Bytes:
		return quantity.Bytes(int64(math.Round(v)))
	}
	return quantity.Number(v)
}

// WriteJSON writes a result, indented, as -o json prints it.
func WriteJSON(w io.Writer, result any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(result)
}
