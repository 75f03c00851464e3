package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// mergeJSON applies a JSON merge patch (RFC 7386) to a document, which it may change.
func mergeJSON(document, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	target, ok := document.(map[string]any)
	if !ok {
		target = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(target, name)
			continue
		}
		target[name] = mergeJSON(target[name], change)
	}
	return target
}

// jsonPatch is a JSON patch (RFC 6902).
type jsonPatch []operation

type operation struct {
	Op    string          `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"`
}

var (
	errNoValue    = errors.New("it needs a value")
	errNoPath     = errors.New("it needs a path")
	errNoFrom     = errors.New("it needs a from")
	errMissing    = errors.New("there is nothing")
	errUnequal    = errors.New("testing value failed")
	errTooMuch    = errors.New("the patch copies too much")
	errInside     = errors.New("a value cannot be moved into itself")
	errBadIndex   = errors.New("no such element")
	errNoParent   = errors.New("the value that it leads into is neither an object nor a list")
	errBadPointer = errors.New("a path begins with a slash")
)

func parseJSONPatch(body []byte) (jsonPatch, error) {
	var p jsonPatch
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, err
	}
	for i, o := range p {
		if err := o.check(); err != nil {
			return nil, fmt.Errorf("operation %d (%s): %w", i, o.Op, err)
		}
	}
	return p, nil
}

func (o *operation) check() error {
	if o.Path == nil {
		return errNoPath
	}
	switch o.Op {
	case "add", "replace", "test":
		if len(o.Value) == 0 { // a null is four bytes
			return errNoValue
		}
	case "move", "copy":
		if o.From == nil {
			return errNoFrom
		}
	case "remove":
	default:
		return fmt.Errorf("unknown operation %q", o.Op)
	}
	return nil
}

// maxCopied bounds what the copy operations of one patch may add, in bytes, about: a document that
// is copied into itself again and again doubles each time.
const maxCopied = maxBody

// apply returns the patched document. It may change the one it was given, also when it fails.
func (p jsonPatch) apply(document any) (any, error) {
	budget := maxCopied
	for i := range p {
		var err error
		if document, err = p[i].apply(document, &budget); err != nil {
			return nil, fmt.Errorf("operation %d (%s %s): %w", i, p[i].Op, *p[i].Path, err)
		}
	}
	return document, nil
}

func (o *operation) apply(document any, budget *int) (any, error) {
	at, err := pointer(*o.Path)
	if err != nil {
		return nil, err
	}
	switch o.Op {
	case "remove":
		_, document, err = take(document, at)
		return document, err
	case "move", "copy":
		return o.relocate(document, at, budget)
	}
	value, err := o.value()
	if err != nil {
		return nil, err
	}
	switch o.Op {
	case "test":
		found, err := lookup(document, at)
		if err == nil && !sameJSON(found, value) {
			err = errUnequal
		}
		return document, err
	case "replace":
		if _, err := lookup(document, at); err != nil {
			return nil, err
		}
		return place(document, at, value, true)
	}
	return place(document, at, value, false)
}

func (o *operation) value() (any, error) {
	return decodeJSON(o.Value)
}

func (o *operation) relocate(document any, at []string, budget *int) (any, error) {
	from, err := pointer(*o.From)
	if err != nil {
		return nil, err
	}
	value, err := lookup(document, from)
	if err != nil {
		return nil, err
	}
	if o.Op == "copy" {
		if value = cloneJSON(value, budget); *budget < 0 {
			return nil, errTooMuch
		}
		return place(document, at, value, false)
	}
	if len(at) > len(from) && slices.Equal(at[:len(from)], from) {
		return nil, errInside
	}
	if _, document, err = take(document, from); err != nil {
		return nil, err
	}
	return place(document, at, value, false)
}

// pointer splits a JSON pointer (RFC 6901).
func pointer(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	if path[0] != '/' {
		return nil, errBadPointer
	}
	parts := strings.Split(path[1:], "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts, nil
}

// element reads the index of an existing element of a list.
func element(list []any, token string) (int, error) {
	i, err := strconv.Atoi(token)
	if err != nil || i < 0 || i >= len(list) || token != strconv.Itoa(i) {
		return 0, errBadIndex
	}
	return i, nil
}

func lookup(document any, at []string) (any, error) {
	for _, token := range at {
		switch v := document.(type) {
		case map[string]any:
			child, ok := v[token]
			if !ok {
				return nil, errMissing
			}
			document = child
		case []any:
			i, err := element(v, token)
			if err != nil {
				return nil, err
			}
			document = v[i]
		default:
			return nil, errMissing
		}
	}
	return document, nil
}

// edit replaces the value at a place by what change makes of its parent and the last token.
func edit(document any, at []string, change func(parent any, token string) (any, error)) (any, error) {
	if len(at) == 1 {
		return change(document, at[0])
	}
	child, err := lookup(document, at[:1])
	if err != nil {
		return nil, err
	}
	if child, err = edit(child, at[1:], change); err != nil {
		return nil, err
	}
	return place(document, at[:1], child, true)
}

// place puts a value at a place: into an object, or into a list, there before the element of that
// index unless it replaces it.
func place(document any, at []string, value any, replace bool) (any, error) {
	if len(at) == 0 {
		return value, nil
	}
	return edit(document, at, func(parent any, token string) (any, error) {
		switch v := parent.(type) {
		case map[string]any:
			v[token] = value
			return v, nil
		case []any:
			if replace {
				i, err := element(v, token)
				if err == nil {
					v[i] = value
				}
				return v, err
			}
			if token == "-" || token == strconv.Itoa(len(v)) {
				return append(v, value), nil
			}
			i, err := element(v, token)
			if err != nil {
				return nil, err
			}
			return slices.Insert(v, i, value), nil
		}
		return nil, errNoParent
	})
}

// take removes the value at a place and returns it.
func take(document any, at []string) (value, rest any, err error) {
	if len(at) == 0 {
		return document, nil, nil
	}
	if value, err = lookup(document, at); err != nil {
		return nil, nil, err
	}
	rest, err = edit(document, at, func(parent any, token string) (any, error) {
		if v, ok := parent.(map[string]any); ok {
			delete(v, token)
			return v, nil
		}
		v, ok := parent.([]any)
		if !ok {
			return nil, errNoParent
		}
		i, err := element(v, token)
		if err != nil {
			return nil, err
		}
		return slices.Delete(v, i, i+1), nil
	})
	return value, rest, err
}

// cloneJSON copies a value and takes its size, about, from the budget. Below zero it stops.
func cloneJSON(v any, budget *int) any {
	*budget -= 8
	if *budget < 0 {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, child := range v {
			*budget -= len(name)
			out[name] = cloneJSON(child, budget)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = cloneJSON(child, budget)
		}
		return out
	case string:
		*budget -= len(v)
	}
	return v
}

// sameJSON compares values; numbers by what they are worth.
func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			w, ok := b[name]
			if !ok || !sameJSON(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameJSON)
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, errX := a.Float64()
		y, errY := b.Float64()
		return a == b || errX == nil && errY == nil && x == y
	}
	return reflect.DeepEqual(a, b)
}
