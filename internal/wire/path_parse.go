package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrPath is wrapped by the errors of CompilePath and CompileDrop.
var ErrPath = errors.New("bad field path")

// selector says how a step of a path selects values.
type selector uint8

const (
	selectName  selector = iota // .name
	selectKey                   // [key]
	selectIndex                 // [3]; in JSON also the key 3
	selectAll                   // [*]
)

// pathStep is one step of a parsed path.
type pathStep struct {
	sel   selector
	name  string // of selectName, selectKey and selectIndex
	index int    // of selectIndex
}

func (s pathStep) String() string {
	switch s.sel {
	case selectName:
		return "." + s.name
	case selectAll:
		return "[*]"
	}
	return "[" + s.name + "]"
}

// parsePath splits a path into steps. A leading dot is allowed, as in a custom resource's
// selectableFields.
func parsePath(path string) ([]pathStep, error) {
	var steps []pathStep
	rest := strings.TrimPrefix(path, ".")
	for first := true; rest != "" || first; first = false {
		var s pathStep
		var ok bool
		switch {
		case strings.HasPrefix(rest, "["):
			s, rest, ok = parseBracket(rest)
		case first:
			s, rest, ok = parseName(rest)
		case rest[0] == '.':
			s, rest, ok = parseName(rest[1:])
		}
		if !ok {
			return nil, fmt.Errorf("%w %q: at %q", ErrPath, path, rest)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func parseName(s string) (step pathStep, rest string, ok bool) {
	end := strings.IndexAny(s, ".[]")
	if end < 0 {
		end = len(s)
	}
	return pathStep{name: s[:end]}, s[end:], end > 0
}

func parseBracket(s string) (step pathStep, rest string, ok bool) {
	in := s[1:]
	if in != "" && (in[0] == '\'' || in[0] == '"') {
		end := strings.Index(in[1:], in[:1]+"]")
		if end < 0 {
			return step, s, false
		}
		return pathStep{sel: selectKey, name: in[1 : end+1]}, in[end+3:], true
	}
	end := strings.IndexByte(in, ']')
	if end <= 0 {
		return step, s, false
	}
	step, rest = pathStep{sel: selectKey, name: in[:end]}, in[end+1:]
	if step.name == "*" {
		step.sel = selectAll
	} else if n, err := strconv.ParseUint(step.name, 10, 31); err == nil {
		step.sel, step.index = selectIndex, int(n)
	}
	return step, rest, true
}
