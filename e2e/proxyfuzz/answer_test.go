package proxyfuzz

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/core/wire"
)

// answer is the answer of the proxy or of kube-apiserver to one request.
type answer struct {
	code   int
	header http.Header
	body   []byte
	cut    error // error that ended the body early, or nil
	err    error // error because of which there is no answer, or nil

	// uids are all texts in the body that look like a UID, in any encoding. An answer that contains an
	// object contains its UID.
	uids map[string]bool
	// shown has the objects in the body that read could decode: the resourceVersions by UID.
	shown map[string]map[string]bool
	// refused has the status codes of a watch's ERROR events.
	refused []int
	next    string // continue token
}

var uidText = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

var protobufs = func() runtime.Serializer {
	s := runtime.NewScheme()
	_ = scheme.AddToScheme(s)
	_ = metav1.AddMetaToScheme(s)
	_ = metav1beta1.AddMetaToScheme(s)
	return protobuf.NewSerializer(s, s)
}()

// read decodes the body, and sets uids, shown, refused and next.
func (a *answer) read() {
	a.uids, a.shown = map[string]bool{}, map[string]map[string]bool{}
	if a.header.Get("Content-Encoding") == "gzip" {
		if in, err := gzip.NewReader(bytes.NewReader(a.body)); err == nil {
			a.body, _ = io.ReadAll(in) // ignore the error: a watch may be cut short
		}
	}
	for _, uid := range uidText.FindAll(a.body, -1) {
		a.uids[string(uid)] = true
	}
	kind := a.header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "application/vnd.kubernetes.protobuf"):
		a.readProtobuf(strings.Contains(kind, "stream=watch"))
	case strings.HasPrefix(kind, "application/yaml"):
		if body, err := yaml.YAMLToJSON(a.body); err == nil {
			a.readJSON(body)
		}
	case strings.HasPrefix(kind, "application/json"):
		a.readJSON(a.body)
	}
}

// expired reports whether the answer says that the server no longer has the requested state.
func (a *answer) expired() bool {
	return a.code == http.StatusGone || slices.Contains(a.refused, http.StatusGone)
}

func (a *answer) show(uid, version string) {
	if uid == "" {
		return
	}
	if a.shown[uid] == nil {
		a.shown[uid] = map[string]bool{}
	}
	a.shown[uid][version] = true
}

// readJSON decodes one or several JSON documents: an object, or the events of a watch.
func (a *answer) readJSON(body []byte) {
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		var one any
		if d.Decode(&one) != nil {
			return
		}
		if event, ok := one.(map[string]any); ok {
			if status, ok := event["object"].(map[string]any); ok && event["type"] == "ERROR" {
				code, _ := status["code"].(float64)
				a.refused = append(a.refused, int(code))
			}
			if list, ok := event["metadata"].(map[string]any); ok {
				a.next, _ = list["continue"].(string)
			}
		}
		a.walk(one)
	}
}

// walk records the objects at any depth of a JSON value: in lists, events and table rows.
func (a *answer) walk(in any) {
	switch in := in.(type) {
	case []any:
		for _, one := range in {
			a.walk(one)
		}
	case map[string]any:
		if of, ok := in["metadata"].(map[string]any); ok {
			uid, _ := of["uid"].(string)
			version, _ := of["resourceVersion"].(string)
			a.show(uid, version)
		}
		for _, one := range in {
			a.walk(one)
		}
	}
}

func (a *answer) readProtobuf(watch bool) {
	if !watch {
		a.readObject(a.body)
		return
	}
	for rest := a.body; len(rest) >= 4; {
		size := int(binary.BigEndian.Uint32(rest))
		if len(rest) < 4+size {
			return
		}
		var envelope runtime.Unknown
		frame := rest[4 : 4+size]
		rest = rest[4+size:]
		if bytes.HasPrefix(frame, []byte("k8s\x00")) {
			if envelope.Unmarshal(frame[4:]) == nil {
				frame = envelope.Raw
			}
		}
		var event metav1.WatchEvent
		if event.Unmarshal(frame) == nil {
			a.readObject(event.Object.Raw)
		}
	}
}

func (a *answer) readObject(body []byte) {
	o, _, err := protobufs.Decode(body, nil, nil)
	if err != nil {
		return
	}
	if status, ok := o.(*metav1.Status); ok {
		if a.code == http.StatusOK {
			a.refused = append(a.refused, int(status.Code))
		}
		return
	}
	if list, err := meta.ListAccessor(o); err == nil && meta.IsListType(o) {
		a.next = list.GetContinue()
		_ = meta.EachListItem(o, func(item runtime.Object) error {
			if of, err := meta.Accessor(item); err == nil {
				a.show(string(of.GetUID()), of.GetResourceVersion())
			}
			return nil
		})
		return
	}
	if of, err := meta.Accessor(o); err == nil {
		a.show(string(of.GetUID()), of.GetResourceVersion())
	}
}

// bodies compares the bytes of both answers. No object changes, so both answers must show the same
// state. Only the resourceVersion and the continue token of a list may differ.
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
		e.compared = false // the cells of a table contain ages, which change
	case ours.mediaType("application/json"):
		body := ours.body
		if strings.Contains(e.target, "shardSelector=") && !bytes.Contains(theirs.body, []byte(`"shardInfo"`)) {
			body = shardInfo.ReplaceAll(body, nil) // the proxy sets shardInfo in lists of all kinds
		}
		e.sameText("the body", withoutToken(body), withoutToken(theirs.body))
	case ours.mediaType("application/yaml"):
		e.sameText("the body", yamlVersion.ReplaceAll(ours.body, nil), yamlVersion.ReplaceAll(theirs.body, nil))
	}
}

func (a *answer) mediaType(name string) bool {
	return strings.HasPrefix(a.header.Get("Content-Type"), name)
}

// watch reports whether the answer is a stream of watch events.
func (a *answer) watch() bool {
	return strings.Contains(a.header.Get("Content-Type"), "stream=watch") || a.mediaType("application/json") && bytes.HasPrefix(a.body, []byte(`{"type":"`))
}

// sameText reports a fault if two texts differ. The fault has the first difference.
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

// continueToken matches the continue token of a list. One of the two answers may lack it: for an
// empty page, kube-apiserver may return a token where the proxy returns none. goOn compares the
// next pages.
var continueToken = regexp.MustCompile(`,?"continue": ?"[^"]*"`)

// withoutToken returns the JSON of a list without its continue token.
func withoutToken(body []byte) []byte {
	plain := continueToken.ReplaceAll(cluster.ComparableList(body), nil)
	return bytes.ReplaceAll(plain, []byte("{,"), []byte("{"))
}

// shardInfo matches the field of a list that describes the requested shard.
var shardInfo = regexp.MustCompile(`,"shardInfo":\{"selector":"[^"]*"\}`)

// yamlVersion matches the resourceVersion and the continue token of a list or of a single object.
// judge compares the resourceVersions of objects.
var yamlVersion = regexp.MustCompile(`(?m)^  (resourceVersion|continue): .*\n`)

// protobufBodies compares two lists item by item, or other bodies as a whole.
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

// events compares the watch events of the proxy and of kube-apiserver.
func (e *exchange) events() {
	theirs := e.theirs.events()
	for key, frame := range e.ours.events() {
		if other, ok := theirs[key]; ok {
			e.sameText("the event "+key, frame, other)
		}
	}
}

// events returns the encoded events of a watch, without bookmarks. The key is the event's type, and
// the object's UID and resourceVersion.
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
