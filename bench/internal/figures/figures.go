// Package figures holds what measurements give: values by name, their medians over several runs,
// and how they are written.
package figures

import (
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
