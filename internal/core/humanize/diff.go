package humanize

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Change is a difference between two versions of an object, at one path.
type Change struct {
	// Sign is '+' for an added path, '-' for a removed path, and '~' for a path whose value
	// changed.
	Sign     byte
	Path     string
	Old, New any
	Hidden   bool // the values are secret, so Line does not show them
}

// DiffOptions say which values Diff hides. The zero value hides the data and the annotations of
// objects whose kind is Secret. Annotations are hidden because many tools store the whole object in
// an annotation.
type DiffOptions struct {
	// Secret also hides these values if the object states a kind other than Secret, or no kind. Set it
	// for an object that may be a Secret.
	Secret bool
	// Env hides the values of environment variables: the contents of fields such as env, except the
	// names of variables and the references to the variables' sources. It also hides annotations that
	// may contain the whole object, and so also the variables.
	Env bool
}

// Diff returns the differences between two versions of an object, which are decoded JSON, ordered
// by path. The path of an element of a list has the value of its merge key, such as
// "status.conditions[Ready].status", or its position if no field identifies the elements. Diff
// omits the resourceVersion, because it changes with every version, and managedFields, because they
// repeat the changes of other fields.
func Diff(before, after map[string]any, o DiffOptions) []Change {
	d := &differ{secret: o.Secret || after["kind"] == "Secret" && after["apiVersion"] == "v1", env: o.Env}
	d.objects("", pruned(before), pruned(after))
	return d.changes
}

// pruned returns a copy of an object without the fields that Diff omits.
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
	secret, env bool
	hidden      bool // the values at the current path are secret
	inEnv       bool // the current path is inside environment variables
	changes     []Change
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

// lone reports a value that only one version has. It reports labels and similar flat maps, and
// hidden maps, key by key. It reports other values as a whole, so that a new container is one line
// instead of thirty. It always reports metadata key by key, because only parts of the metadata may
// be hidden.
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

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// join appends a key to a path. It quotes a key that contains a dot or another special character,
// as the keys of many labels do.
func join(path, key string) string {
	if !plainKey.MatchString(key) {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// arrow separates the old value from the new one.
const arrow = " → "

// Maximum lengths in a line, in characters.
const (
	maxValue = 60
	maxLine  = 160
	// context is the number of common characters that a line shows before the first difference of two
	// long texts.
	context = 10
)

// Line returns a change as one line of at most limit characters. A limit of 0 means 160.
func (c Change) Line(limit int) string {
	if limit <= 0 {
		limit = maxLine
	}
	line := fmt.Sprintf("%c %s: ", c.Sign, c.Path)
	switch {
	case c.Hidden && c.Sign == '~':
		line += "(hidden), differs"
	case c.Hidden:
		line += "(hidden)"
	case c.Sign == '+':
		line += Cut(text(c.New), maxValue)
	case c.Sign == '-':
		line += Cut(text(c.Old), maxValue)
	default:
		before, after := apart(text(c.Old), text(c.New))
		line += Cut(before, maxValue) + arrow + Cut(after, maxValue)
	}
	return Cut(line, limit)
}

// text formats a value for people. A string has quotes only if it would be ambiguous without them.
func text(value any) string {
	s, ok := value.(string)
	if !ok {
		raw, err := json.Marshal(value)
		if err != nil {
			return "(cannot be shown)" // decoded JSON contains no such value
		}
		return string(raw)
	}
	quoted := strconv.Quote(s)
	if s == "" || json.Valid([]byte(s)) && !strings.ContainsAny(s[:1], "{[") || quoted != `"`+s+`"` ||
		strings.TrimSpace(s) != s || strings.Contains(s, arrow) {
		return quoted
	}
	return s
}

// apart shortens the common start of two texts if at least one of them is longer than maxValue.
func apart(a, b string) (string, string) {
	if len([]rune(a)) <= maxValue && len([]rune(b)) <= maxValue {
		return a, b
	}
	x, y := []rune(a), []rune(b)
	same := 0
	for same < min(len(x), len(y)) && x[same] == y[same] {
		same++
	}
	if same <= context {
		return a, b
	}
	return "…" + string(x[same-context:]), "…" + string(y[same-context:])
}

// Cut shortens a text to at most limit characters. A shortened text ends with "…".
func Cut(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}

// redaction replaces the value of an environment variable.
const redaction = "(hidden)"

// isEnv reports whether the name of a field says that it contains environment variables: env of a
// container, or extraEnv, envVars and similar fields of custom resources.
func isEnv(key string) bool {
	key = strings.ToLower(key)
	ends := []string{"env", "envs", "envvar", "envvars", "environment", "environmentvariables"}
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(key, end) })
}

// told reports whether a line may show a field of an environment variable: the variable's name, or
// the reference to the object that contains the value.
func told(key string) bool { return key == "name" || key == "valueFrom" }

// redacted returns a copy of a value in which the values of environment variables are replaced.
// inEnv is true if the value is inside a field of environment variables.
func redacted(value any, inEnv bool) any {
	switch value := value.(type) {
	case nil:
		return nil
	case map[string]any:
		object := make(map[string]any, len(value))
		for key, v := range value {
			if inEnv && !told(key) {
				object[key] = redaction
			} else {
				object[key] = redacted(v, !inEnv && isEnv(key))
			}
		}
		return object
	case []any:
		list := make([]any, len(value))
		for i, v := range value {
			list[i] = redacted(v, inEnv)
		}
		return list
	}
	if inEnv {
		return redaction
	}
	return value
}

// repeatsObject reports whether the value of an annotation may contain the whole object, because
// the value is a JSON object, or gzip in base64. Tools such as kubectl and kapp store the applied
// object in an annotation; Rancher also compresses it.
func repeatsObject(value any) bool {
	text, ok := value.(string)
	return ok && (strings.HasPrefix(strings.TrimSpace(text), "{") || strings.HasPrefix(text, gzipInBase64))
}

// gzipInBase64 is the start of every gzip text in base64.
const gzipInBase64 = "H4sI"
