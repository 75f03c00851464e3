// Package diff says what changed between two versions of an object, path by path.
package diff

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
)

// Change is one path whose value changed.
type Change struct {
	// Sign is '+' for a path that is new, '-' for one that is gone, and '~' for one with another
	// value.
	Sign     byte
	Path     string
	Old, New any
	Hidden   bool // the values are not to be shown
}

// Options say what is hidden. The zero value hides the values of objects that say that they are
// Secrets, and their annotations, of which many a tool keeps the whole object in one.
type Options struct {
	// Secret says that the object is, or may be, a Secret, whatever it says itself.
	Secret bool
	// Env hides the values of environment variables: whatever is below a field whose name ends as
	// isEnv says, but for the names of variables and where they come from. It also hides annotations
	// that may repeat the object, and the variables with it.
	Env bool
}

// Objects returns what changed from one version of an object to another, as their JSON decodes, in
// the order of their paths. The resourceVersion and managedFields are left out: the first changes
// with everything, the second repeats what changed.
func Objects(before, after map[string]any, o Options) []Change {
	d := &differ{secret: o.Secret || after["kind"] == "Secret" && after["apiVersion"] == "v1", env: o.Env}
	d.objects("", pruned(before), pruned(after))
	return d.changes
}

// pruned returns an object without what Objects leaves out. The object itself stays as it is.
func pruned(object map[string]any) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	object, metadata = maps.Clone(object), maps.Clone(metadata)
	delete(metadata, "resourceVersion")
	delete(metadata, "managedFields")
	object["metadata"] = metadata
	return object
}

type differ struct {
	secret  bool
	env     bool
	hidden  bool // what is being compared now is not to be shown
	inEnv   bool // it is among environment variables
	changes []Change
}

func (d *differ) add(sign byte, path string, before, after any) {
	if d.env {
		before, after = redacted(before, d.inEnv), redacted(after, d.inEnv)
	}
	d.changes = append(d.changes, Change{Sign: sign, Path: path, Old: before, New: after, Hidden: d.hidden})
}

func (d *differ) objects(path string, before, after map[string]any) {
	both := maps.Clone(before)
	if both == nil {
		both = map[string]any{}
	}
	maps.Copy(both, after)
	hidden, inEnv := d.hidden, d.inEnv
	defer func() { d.hidden, d.inEnv = hidden, inEnv }()
	for _, key := range slices.Sorted(maps.Keys(both)) {
		d.hidden, d.inEnv = hidden, inEnv || d.env && isEnv(key)
		switch {
		case path == "" && d.secret && (key == "data" || key == "stringData"):
			d.hidden = true
		case path == "metadata" && d.secret && key == "annotations":
			d.hidden = true
		case path == "metadata.annotations" && d.env && (repeatsObject(before[key]) || repeatsObject(after[key])):
			d.hidden = true
		case inEnv && told(key):
			d.inEnv = false
		case inEnv:
			d.hidden = true
		}
		was, had := before[key]
		is, has := after[key]
		at := join(path, key)
		switch {
		case had && has:
			d.values(at, was, is)
		case has:
			d.lone('+', at, is)
		default:
			d.lone('-', at, was)
		}
	}
}

// lone tells of a value that only one version has. Labels and the like are told one by one, what is
// deeper as a whole, so that a new container is one line and not thirty. The metadata has what may
// be hidden, and is never told as a whole.
func (d *differ) lone(sign byte, path string, value any) {
	if object, ok := value.(map[string]any); ok && len(object) > 0 && (flat(object) || d.hidden || path == "metadata") {
		if sign == '+' {
			d.objects(path, nil, object)
		} else {
			d.objects(path, object, nil)
		}
		return
	}
	if sign == '+' {
		d.add(sign, path, nil, value)
	} else {
		d.add(sign, path, value, nil)
	}
}

// flat reports whether all values of an object are scalars.
func flat(object map[string]any) bool {
	for _, value := range object {
		switch value.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}

func (d *differ) values(path string, before, after any) {
	switch was := before.(type) {
	case map[string]any:
		if is, ok := after.(map[string]any); ok {
			d.objects(path, was, is)
			return
		}
	case []any:
		if is, ok := after.([]any); ok {
			d.lists(path, was, is)
			return
		}
	}
	if !reflect.DeepEqual(before, after) {
		d.add('~', path, before, after)
	}
}

// lists compares what is between the elements that both lists begin with and those that both end
// with, so that one element that came or went anywhere is told as that.
func (d *differ) lists(path string, before, after []any) {
	start := 0
	for start < min(len(before), len(after)) && reflect.DeepEqual(before[start], after[start]) {
		start++
	}
	endBefore, endAfter := len(before), len(after)
	for endBefore > start && endAfter > start && reflect.DeepEqual(before[endBefore-1], after[endAfter-1]) {
		endBefore--
		endAfter--
	}
	for i := start; i < max(endBefore, endAfter); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i < endBefore && i < endAfter:
			d.values(at, before[i], after[i])
		case i < endAfter:
			d.add('+', at, nil, after[i])
		default:
			d.add('-', at, before[i], nil)
		}
	}
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// join appends a key to a path. One with a dot in it, as many labels have, is quoted.
func join(path, key string) string {
	if !plainKey.MatchString(key) {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
