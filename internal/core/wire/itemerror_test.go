package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// damagedObjects are well-formed JSON values that this package does not accept as objects.
var damagedObjects = map[string]string{
	"null":             `null`,
	"a number":         `-1.5e3`,
	"a text":           `"}],"`,
	"true":             `true`,
	"an array":         `[{"metadata":{"name":"x"}}]`,
	"metadata twice":   `{"metadata":{"name":"x"},"spec":[1,{}],"meta\u0064ata":{"name":"y"},"data":{"a":"}"}}`,
	"kind twice":       `{"kind":"Pod","kind":"Pod","metadata":{"name":"x"}}`,
	"apiVersion twice": `{"apiVersion":"v1","metadata":{"name":"x"},"apiVersion":"v1"}`,
}

// TestItemErrorsOfLists checks that each malformed item causes one *ItemError, and that the reader
// returns all other items, the metadata and the end of the list.
func TestItemErrorsOfLists(t *testing.T) {
	for name, damaged := range damagedObjects {
		body := fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[%[1]s,{"a":1},%[1]s, %[1]s ,{"b":2},%[1]s],"x":1}`, damaged)
		for shape, wrap := range readerShapes {
			l := NewListReader(wrap(strings.NewReader(body)), JSON, Limits{})
			var got []string
			for {
				item, err := l.Next()
				if err == io.EOF {
					break
				}
				switch {
				case err == nil:
					got = append(got, string(item))
				case !isItemError(err) || !errors.Is(err, ErrMalformed) || item != nil:
					t.Fatalf("%s, %s: %q, %v", name, shape, item, err)
				default:
					got = append(got, "-")
				}
			}
			if all := strings.Join(got, " "); all != `- {"a":1} - - {"b":2} -` || l.Meta().ResourceVersion != "7" || l.Offset() != int64(len(body)) {
				t.Errorf("%s, %s: %s, %v, %d of %d bytes", name, shape, all, l.Meta(), l.Offset(), len(body))
			}
		}
	}
}

// TestItemErrorsOfEvents checks that each event with a malformed object causes one *ItemError, and
// that the reader returns the events after it. An ERROR event with a malformed object ends the
// watch.
func TestItemErrorsOfEvents(t *testing.T) {
	events := func(t *testing.T, enc Encoding, body []byte, want string) {
		t.Helper()
		for shape, wrap := range readerShapes {
			w := NewWatchReader(wrap(bytes.NewReader(body)), enc, Limits{})
			var got []string
			for {
				e, err := w.Next()
				if isItemError(err) && errors.Is(err, ErrMalformed) && e.Object == nil {
					got = append(got, "-")
					continue
				}
				if err != nil {
					if err != io.EOF {
						got = append(got, "failed")
					}
					break
				}
				got = append(got, e.Type.String())
			}
			check.Equal(t, strings.Join(got, " "), want, "%s", shape)
		}
	}
	objects := maps.Clone(damagedObjects)
	objects["kind a number"] = `{"kind":1}`
	for name, damaged := range objects {
		t.Run("json, "+name, func(t *testing.T) {
			event := func(typ, object string) string {
				return fmt.Sprintf(`{"object":%s,"type":%q,"x":1}`, object, typ) + "\n"
			}
			good, bad := event("DELETED", `{"kind":"Pod"}`), event("MODIFIED", damaged)
			events(t, JSON, []byte(bad+good+bad+bad+good), "- DELETED - - DELETED")
			events(t, JSON, []byte(good+event("ERROR", damaged)+good), "DELETED failed")
		})
	}
	pod := unknown(1, message(1, "v1", 2, "Pod"), 2, message(1, ""))
	for name, damaged := range map[string][]byte{
		"no raw":           {},
		"raw twice":        append(message(1, pod), message(1, pod)...),
		"no envelope":      message(1, "{}"),
		"no object inside": message(1, unknown(1, message(1, "v1", 2, "Pod"))),
		"bytes cut off":    append(message(1, pod), 10, 200),
	} {
		t.Run("protobuf, "+name, func(t *testing.T) {
			good, bad := frame(message(1, "DELETED", 2, message(1, pod))), frame(message(1, "MODIFIED", 2, damaged))
			events(t, Protobuf, bytes.Join([][]byte{bad, good, bad, bad, good}, nil), "- DELETED - - DELETED")
			events(t, Protobuf, bytes.Join([][]byte{good, frame(message(1, "ERROR", 2, damaged)), good}, nil), "DELETED failed")
		})
	}
}
