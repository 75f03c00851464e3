package trace

import "github.com/weirproject/weir/bench/internal/figures"

// Traced is what one side of a replay was measured to do, in figures and over time. The JSON names
// are a promise.
type Traced struct {
	Label   string         `json:"side"`
	Figures figures.Values `json:"figures"`
	Trace   Trace          `json:"trace"`
}
