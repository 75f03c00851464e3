// Package wire splits the bodies of LIST and WATCH answers into objects, and writes such bodies.
//
// Objects are not decoded. A [ListReader] or a [WatchReader] holds one read buffer with one object
// in it, and what it returns aliases that buffer. [ReadMeta] reads key, uid, resourceVersion,
// labels and annotations from an object's bytes, a [Path] reads any other field, and a [Dropper]
// copies an object without some of its fields. [ListWriter], [AppendEvent] and [AppendObject] write
// bodies.
//
// # Encodings
//
// There are two: JSON and the Kubernetes protobuf envelope (k8s\0 and a runtime.Unknown). In this
// package an object's bytes are, in JSON, the text of one JSON object and, in protobuf, the message
// without envelope, as a list has its items. Such a message does not have its apiVersion and kind;
// a [TypeMeta] has them.
//
// # Refused bodies
//
// Bodies come from a network and may contain anything. A body that is malformed, truncated, or
// larger than [Limits] allows causes a [*SyntaxError] with the offset in the decoded body. Memory
// grows only with received bytes.
//
// In protobuf, these are malformed too: a field that occurs twice if this package reads it and it
// is no list or map, a typeMeta after the raw bytes that it describes, and a body of another kind
// in place of a list.
//
// In JSON, these are: text outside RFC 8259, a byte order mark, nesting deeper than [MaxDepth], and
// two members of the same name if this package reads that name. Names are compared exactly, not
// ignoring case. Strings that are not valid UTF-8 are accepted, as encoding/json accepts them, and
// returned unchanged.
//
// A mistake inside one complete item of a list, or inside the object of one complete event, is
// a [*ItemError], and the reader continues: an item that is null or has its metadata twice, or an
// event whose object has no envelope. [ReadMeta] finds mistakes inside the item's metadata.
package wire
