// Package wire cuts the bodies of LIST and WATCH answers into objects, and frames objects into such
// bodies.
//
// Nothing is decoded. A [ListReader] or a [WatchReader] holds one read buffer and, in it, one
// object; what it returns aliases that buffer. [ReadMeta] finds key, uid, resourceVersion, labels
// and annotations in an object's bytes, a [Path] finds any other field, and a [Dropper] copies an
// object without some of its fields. [ListWriter], [WatchWriter] and [AppendObject] are the
// reverse.
//
// # Encodings
//
// Two are known: JSON and the Kubernetes protobuf envelope (k8s\0 and a runtime.Unknown). In this
// package an object's bytes are, in JSON, the text of one JSON object and, in protobuf, the message
// itself without envelope, because that is how a list carries its items. Its apiVersion and kind
// then stand beside it, in a [TypeMeta].
//
// # What is refused
//
// Bodies come from a network and may be anything. Whatever is malformed, truncated, or larger than
// [Limits] allows gives a [*SyntaxError] with the offset in the decoded body; memory grows only
// with bytes that really arrived. Protobuf: a field that is read and stands there twice, a typeMeta
// behind the raw bytes that it describes, a kind that is no list. JSON: text outside RFC 8259, a
// byte order mark, nesting deeper than [MaxDepth], two members of the same name where this package
// reads that name. Names are compared exactly, not ignoring case. Bytes in strings that are not
// UTF-8 are passed on as they are, as encoding/json takes them.
package wire
