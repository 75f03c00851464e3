package figures

import (
	"fmt"
	"strings"
)

// Figure is one value that a measurement has. Key is a promise: it is what `-o json` has.
type Figure struct {
	Key, Label string
	Unit       Unit
}

// New returns a figure.
func New(key, label string, unit Unit) Figure { return Figure{key, label, unit} }

// Figured returns the figure itself, for what embeds it.
func (f Figure) Figured() Figure { return f }

// Figured is a figure, and what a kind of measurement knows of it besides.
type Figured interface{ Figured() Figure }

// Help lists figures by format, which takes the key and the label.
func Help[F Figured](format string, all []F) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, format, f.Figured().Key, f.Figured().Label)
	}
	return b.String()
}

// Headline returns the first two figures that a run has, in a line.
func Headline[F Figured](v Values, all []F) string {
	var parts []string
	for _, f := range all {
		f := f.Figured()
		if value, ok := v[f.Key]; ok && len(parts) < 2 {
			parts = append(parts, strings.TrimSpace(f.Label)+" "+f.Unit.Text(value))
		}
	}
	return strings.Join(parts, ", ")
}
