// Package wire splits the bodies of responses to LIST and WATCH into objects, and writes such
// bodies.
//
// The package does not decode objects. A [ListReader] or a [WatchReader] has one read buffer, and
// the objects that it returns are slices of that buffer. [ReadMeta] reads key, uid,
// resourceVersion, labels and annotations from an object's bytes, and a [Path] reads any other
// field. A [Dropper] copies an object without some of its fields. [ListWriter], [AppendEvent] and
// [AppendObject] write bodies.
//
// # Encodings
//
// There are two encodings: JSON and the Kubernetes protobuf envelope (k8s\0 and a runtime.Unknown).
// In this package, "an object's bytes" means the text of one JSON object, or a protobuf message
// without the envelope. The items of a protobuf list have no envelope either. A protobuf message
// does not contain the object's apiVersion and kind; a [TypeMeta] contains them.
//
// # Refused bodies
//
// Bodies come from a network and may contain anything. A body that is malformed, truncated, or
// larger than [Limits] allows causes a [*SyntaxError] with the offset of the mistake in the decoded
// body. A reader's memory grows only with the bytes that it received.
//
// A protobuf body is also malformed in three cases: a field that this package reads occurs twice
// and is no list or map; a typeMeta follows the raw bytes that it describes; the body of a LIST is
// not a list.
//
// A JSON body is malformed if its text does not follow RFC 8259, starts with a byte order mark, or
// is nested deeper than [MaxDepth]. It is also malformed if an object has two members of a name
// that this package reads. The comparison of names is case-sensitive. Like encoding/json, the
// package accepts strings that are not valid UTF-8; it returns them unchanged.
//
// If one complete item of a list, or the object of one complete event, is malformed, the reader
// returns an [*ItemError] and continues. Examples are an item that is null or has two metadata
// members, and an event whose object has no envelope. The readers do not check the metadata of an
// object; [ReadMeta] does.
package wire
