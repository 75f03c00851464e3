package informers

import (
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/wire"
)

// encoding describes how a stub encodes its answers.
type encoding struct {
	wire        wire.Encoding
	contentType string
	streamType  string // the content type of a watch
	form        wire.ListForm
	types       wire.TypeMeta // the type of an object
	path        string        // the path of LISTs and watches
}

const podsPath = "/api/v1/pods"

var podTypes = wire.TypeMeta{APIVersion: "v1", Kind: "Pod"}

// The encodings of a stub. workloadsInJSON is kube-apiserver's JSON of custom resources: each item
// of a list states its kind.
var (
	podsInProtobuf  = &encoding{wire.Protobuf, wire.ContentTypeProtobuf, wire.ContentTypeProtobufWatch, wire.TypedList, podTypes, podsPath}
	podsInJSON      = &encoding{wire.JSON, wire.ContentTypeJSON, wire.ContentTypeJSON, wire.TypedList, podTypes, podsPath}
	workloadsInJSON = &encoding{
		wire.JSON, wire.ContentTypeJSON, wire.ContentTypeJSON, wire.UnstructuredList,
		wire.TypeMeta{APIVersion: workloadsVersion.String(), Kind: workloadKind}, "/apis/" + workloadsVersion.String() + "/" + workloadsResource.Resource,
	}
)

// message is an API object, or a part of one, that can be encoded as protobuf.
type message interface{ Marshal() ([]byte, error) }

func (e *encoding) encode(m message) ([]byte, error) {
	if e.wire == wire.Protobuf {
		return m.Marshal()
	}
	return json.Marshal(m)
}

// encodePod encodes a pod as an item of a LIST.
func (e *encoding) encodePod(pod *corev1.Pod) ([]byte, error) {
	raw, err := e.encode(pod)
	if err != nil || e.form == wire.TypedList {
		return raw, err
	}
	return wire.AppendObject(nil, e.wire, e.types, raw), nil
}

// appendTime appends a time in seconds. The encodings of all times that a stub uses have equal
// lengths.
func (e *encoding) appendTime(dst []byte, seconds int64) []byte {
	if e.wire == wire.Protobuf {
		return protowire.AppendVarint(dst, uint64(seconds))
	}
	return time.Unix(seconds, 0).UTC().AppendFormat(dst, time.RFC3339)
}
