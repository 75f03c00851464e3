package proxyfuzz

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/core/wire"
)

// bodies compares the bytes of both answers. Both are of the same state, because no object changes.
// They may differ in the resourceVersion and the continue token of a list.
func (e *exchange) bodies() {
	ours, theirs := e.ours, e.theirs
	if ours.code != theirs.code || ours.cut != nil || theirs.cut != nil || e.request.method != http.MethodGet {
		return
	}
	if ours.code == http.StatusNotFound && e.refusedHere() {
		e.sameText("the refusal", ours.body, theirs.body)
	}
	if ours.code != http.StatusOK || len(theirs.shown) == 0 && !bytes.Contains(theirs.body, []byte("List")) {
		return
	}
	e.compared = true
	if a, b := ours.header.Get("Content-Type"), theirs.header.Get("Content-Type"); a != b {
		e.fault("the proxy answers in %s, kube-apiserver in %s", a, b)
		return
	}
	switch {
	case ours.watch():
		e.events()
	case ours.mediaType("application/vnd.kubernetes.protobuf"):
		e.protobufBodies()
	case ours.mediaType("application/json") && bytes.Contains(theirs.body[:min(len(theirs.body), 100)], []byte(`"Table"`)):
		e.compared = false // its cells are ages
	case ours.mediaType("application/json"):
		body := ours.body
		if strings.Contains(e.target, "shardSelector=") && !bytes.Contains(theirs.body, []byte(`"shardInfo"`)) {
			body = shardInfo.ReplaceAll(body, nil) // the proxy's lists of any kind have it
		}
		e.sameText("the body", withoutToken(body), withoutToken(theirs.body))
	case ours.mediaType("application/yaml"):
		e.sameText("the body", yamlVersion.ReplaceAll(ours.body, nil), yamlVersion.ReplaceAll(theirs.body, nil))
	}
}

func (a *answer) mediaType(name string) bool {
	return strings.HasPrefix(a.header.Get("Content-Type"), name)
}

// watch reports whether the answer is a stream of events.
func (a *answer) watch() bool {
	return strings.Contains(a.header.Get("Content-Type"), "stream=watch") || a.mediaType("application/json") && bytes.HasPrefix(a.body, []byte(`{"type":"`))
}

// sameText finds where two texts differ.
func (e *exchange) sameText(what string, ours, theirs []byte) {
	if bytes.Equal(ours, theirs) {
		return
	}
	at := 0
	for at < min(len(ours), len(theirs)) && ours[at] == theirs[at] {
		at++
	}
	around := func(b []byte) []byte { return b[max(0, at-80):min(len(b), at+120)] }
	e.fault("%s differs from byte %d of %d and %d on: the proxy %q, kube-apiserver %q", what, at, len(ours), len(theirs), around(ours), around(theirs))
}

// continueToken is a list's. kube-apiserver's may lead to an empty page where the proxy has none;
// the next request compares that.
var continueToken = regexp.MustCompile(`,?"continue": ?"[^"]*"`)

// withoutToken returns the JSON of a list without its continue token.
func withoutToken(body []byte) []byte {
	plain := continueToken.ReplaceAll(cluster.ComparableList(body), nil)
	return bytes.ReplaceAll(plain, []byte("{,"), []byte("{"))
}

// shardInfo is what a list says of its shard.
var shardInfo = regexp.MustCompile(`,"shardInfo":\{"selector":"[^"]*"\}`)

// yamlVersion are the lines in the metadata of a list or an object itself. Objects are compared by
// their resourceVersions before.
var yamlVersion = regexp.MustCompile(`(?m)^  (resourceVersion|continue): .*\n`)

// protobufBodies compares two objects, or two lists item by item.
func (e *exchange) protobufBodies() {
	ours, theirs := wire.NewListReader(bytes.NewReader(e.ours.body), wire.Protobuf, wire.Limits{}), wire.NewListReader(bytes.NewReader(e.theirs.body), wire.Protobuf, wire.Limits{})
	if tm, _, err := wire.CutObject(wire.Protobuf, e.theirs.body); err != nil || !strings.HasSuffix(tm.Kind, "List") || strings.HasPrefix(tm.Kind, "API") {
		e.sameText("the body", e.ours.body, e.theirs.body)
		return
	}
	for n := 0; ; n++ {
		a, errA := ours.Next()
		b, errB := theirs.Next()
		if errA != nil || errB != nil {
			if errA != io.EOF || errB != io.EOF {
				e.fault("the proxy's list ends after %d items: %v; kube-apiserver's: %v", n, errA, errB)
			}
			break
		}
		e.sameText(fmt.Sprintf("item %d", n), a, b)
	}
	a, b := ours.Meta(), theirs.Meta()
	a.ResourceVersion, b.ResourceVersion = "", ""
	if strings.Contains(e.target, "shardSelector=") && b.ShardSelector == "" {
		a.ShardSelector = ""
	}
	a.Continue, b.Continue = "", "" // see continueToken
	if a != b || ours.TypeMeta() != theirs.TypeMeta() {
		e.fault("the proxy's list is a %v %+v, kube-apiserver's a %v %+v", ours.TypeMeta(), a, theirs.TypeMeta(), b)
	}
}

// events compares the events that both sides have sent.
func (e *exchange) events() {
	theirs := e.theirs.events()
	for key, frame := range e.ours.events() {
		if other, ok := theirs[key]; ok {
			e.sameText("the event "+key, frame, other)
		}
	}
}

// events returns the events of a watch, by their type and the uid and resourceVersion of their
// object. Bookmarks are no events.
func (a *answer) events() map[string][]byte {
	all := map[string][]byte{}
	add := func(frame []byte, kind string, of metav1.Object) {
		if of.GetUID() != "" {
			all[fmt.Sprint(kind, " ", of.GetUID(), " ", of.GetResourceVersion())] = frame
		}
	}
	if a.mediaType("application/json") {
		for line := range bytes.Lines(a.body) {
			var event struct {
				Type   string
				Object metav1.PartialObjectMetadata
			}
			if json.Unmarshal(line, &event) == nil {
				add(line, event.Type, &event.Object)
			}
		}
		return all
	}
	for rest := a.body; len(rest) >= 4; {
		size := int(binary.BigEndian.Uint32(rest))
		if len(rest) < 4+size {
			break
		}
		var event metav1.WatchEvent
		if event.Unmarshal(rest[4:4+size]) == nil {
			if o, _, err := protobufs.Decode(event.Object.Raw, nil, nil); err == nil {
				if of, err := meta.Accessor(runtime.Object(o)); err == nil {
					add(rest[:4+size], event.Type, of)
				}
			}
		}
		rest = rest[4+size:]
	}
	return all
}
