package humanize

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lists compares two lists. If a merge key identifies the elements, it compares those with the same
// key, and reports a changed order. Otherwise it compares the lists without the elements that are
// equal at the start and at the end of both. So if elements were added or removed at one place, it
// reports only these elements.
func (d *differ) lists(path string, before, after []any) {
	if key := d.mergeKey(before, after); key != "" {
		d.keyed(path, key, before, after)
		return
	}
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
		d.element(fmt.Sprintf("%s[%d]", path, i), at(before[:endBefore], i), at(after[:endAfter], i))
	}
}

// at returns the element of a list, or nothing if the list is shorter. The element of a list in
// JSON may be nil, so nothing is another value.
func at(list []any, i int) any {
	if i < 0 || i >= len(list) {
		return nothing{}
	}
	return list[i]
}

// nothing represents an element that a list lacks.
type nothing struct{}

// element compares an element of two lists, of which one may lack it.
func (d *differ) element(path string, before, after any) {
	switch {
	case before == nothing{}:
		d.add('+', path, nil, after)
	case after == nothing{}:
		d.add('-', path, before, nil)
	default:
		d.values(path, before, after)
	}
}

// mergeKeys are the fields that identify the elements of the API's lists, by the patchMergeKey and
// listMapKey of the Go types, in the order in which mergeKey tries them. The API identifies ports
// by their number; a name, if there is one, is clearer. Custom resources follow these conventions.
var mergeKeys = []string{"name", "type", "key", "ip", "mountPath", "devicePath", "containerPort", "port", "topologyKey", "uid"}

// mergeKey returns the first merge key that all elements of both lists have, with a different value
// for each element of a list. It returns "" if there is none, or the values may be secret.
func (d *differ) mergeKey(before, after []any) string {
	if d.hidden || len(before)+len(after) == 0 {
		return ""
	}
	for _, key := range mergeKeys {
		if !d.inEnv || told(key) {
			if positions(before, key) != nil && positions(after, key) != nil {
				return key
			}
		}
	}
	return ""
}

// positions returns the positions of the elements by the text of a key, or nil if the key does not
// identify them.
func positions(list []any, key string) map[string]int {
	found := make(map[string]int, len(list))
	for i, element := range list {
		object, ok := element.(map[string]any)
		if !ok {
			return nil
		}
		switch object[key].(type) {
		case string, int64, float64:
			found[fmt.Sprint(object[key])] = i
		}
	}
	if len(found) < len(list) {
		return nil
	}
	return found
}

// keyed compares two lists with a merge key: the elements of the newer list in their order, and
// then those that only the older one has.
func (d *differ) keyed(path, key string, before, after []any) {
	was, is := positions(before, key), positions(after, key)
	var common []string // in the order of after
	for _, element := range after {
		name := fmt.Sprint(element.(map[string]any)[key])
		i, had := was[name]
		if !had {
			i = -1
		} else {
			common = append(common, name)
		}
		d.element(keyedPath(path, name), at(before, i), element)
	}
	var ordered []string // those of common, in the order of before
	for _, element := range before {
		name := fmt.Sprint(element.(map[string]any)[key])
		if _, has := is[name]; has {
			ordered = append(ordered, name)
			continue
		}
		d.element(keyedPath(path, name), element, nothing{})
	}
	if !slices.Equal(common, ordered) {
		d.changes = append(d.changes, Change{Sign: '~', Path: path + " (order)", Old: strings.Join(ordered, ","), New: strings.Join(common, ",")})
	}
}

// keyedPath returns the path of an element with the text of its merge key, which is quoted if it
// would be ambiguous.
func keyedPath(path, name string) string {
	if _, err := strconv.Atoi(name); err == nil || !plainElement.MatchString(name) {
		name = strconv.Quote(name)
	}
	return path + "[" + name + "]"
}

var plainElement = regexp.MustCompile(`^[A-Za-z0-9_./:-]+$`)
