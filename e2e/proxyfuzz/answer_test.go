package proxyfuzz

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
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
)

// answer is what one side said.
type answer struct {
	code   int
	header http.Header
	body   []byte
	cut    error // why the body has no end
	err    error // why there is no answer

	// uids are all texts that look like a uid, in any encoding: no object is returned without one.
	uids map[string]bool
	// shown are the objects that could be read: resourceVersions by uid.
	shown map[string]map[string]bool
	// refused are the codes of a watch's ERROR events.
	refused []int
	next    string // the continue token
}

var uidText = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

var protobufs = func() runtime.Serializer {
	s := runtime.NewScheme()
	_ = scheme.AddToScheme(s)
	_ = metav1.AddMetaToScheme(s)
	_ = metav1beta1.AddMetaToScheme(s)
	return protobuf.NewSerializer(s, s)
}()

// read finds what the body shows.
func (a *answer) read() {
	a.uids, a.shown = map[string]bool{}, map[string]map[string]bool{}
	if a.header.Get("Content-Encoding") == "gzip" {
		if in, err := gzip.NewReader(bytes.NewReader(a.body)); err == nil {
			a.body, _ = io.ReadAll(in) // as far as it goes: a watch may have been cut off
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

// expired reports whether the state that was asked for is forgotten.
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

// readJSON reads one document or several.
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

// walk finds metadata wherever it is: in lists, events, rows.
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
