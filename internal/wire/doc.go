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
// without envelope, as a list has its items. Such a message does not have its apiVersion and kind:
// they are passed beside it in a [TypeMeta].
//
// # What is refused
//
// Bodies come from a network and may contain anything. For what is malformed, truncated, or larger
// than [Limits] allows, the error is a [*SyntaxError] with the offset in the decoded body. Memory
// grows only with bytes that have arrived.
//
// In protobuf, these are malformed too: a field that occurs twice if this package reads it, a
// typeMeta after the raw bytes that it describes, and a body that is to be a list but is of another
// kind.
//
// In JSON, these are: text outside RFC 8259, a byte order mark, nesting deeper than [MaxDepth], and
// two members of the same name if this package reads that name. Names are compared exactly, not
// ignoring case. Strings that are not valid UTF-8 are accepted, as encoding/json accepts them, and
// returned as they are.
//
// What is wrong inside one complete item of a list, or inside the object of one complete event, is
// a [*ItemError], and the reader goes on: an item that is null or has its metadata twice, or an
// event whose object has no envelope. What is wrong inside the item's metadata, [ReadMeta] finds.
package wire
