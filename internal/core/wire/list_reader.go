package wire

import (
	"io"
	"strings"
)

// DefaultMaxObject is the default of Limits.MaxObject, in bytes.
const DefaultMaxObject = 16 << 20

// MaxDepth bounds the nesting of JSON, counted from the root of a body, and with it the stack of a
// scan, to a few megabytes. encoding/json has the same limit.
const MaxDepth = 10_000

// Limits bounds a reader's memory. The zero value has the defaults.
type Limits struct {
	// MaxObject is the size of the largest object, in bytes. The error for a larger one wraps
	// ErrTooLarge. A reader's memory is at most about this and its read buffer, and only if such an
	// object arrives. 0 means DefaultMaxObject.
	MaxObject int
}

func (l Limits) maxObject() int {
	if l.MaxObject <= 0 {
		return DefaultMaxObject
	}
	return l.MaxObject
}

// TypeMeta is the apiVersion and kind of an object or a list.
type TypeMeta struct{ APIVersion, Kind string }

// ListMeta is the metadata of a list.
type ListMeta struct {
	ResourceVersion string
	// Continue is the token for the next page. It is empty on the last one.
	Continue string
	// RemainingItemCount is the number of items after this page, or -1 if the server does not state
	// it.
	RemainingItemCount int64
	// ShardSelector is the shard selector (KEP-5866) that the server states to have applied, or empty.
	ShardSelector string
}

// ListReader cuts the body of a LIST into its items. It holds one read buffer and one item. It
// reads ahead no further than that buffer, starts no goroutine, and does not close the body. It is
// not safe for concurrent use.
type ListReader struct {
	body     listBody
	err      error
	typeMeta TypeMeta
	itemType TypeMeta // of the first item that states one, if the list's own implied none before it
	meta     ListMeta
}

// listBody is what both encodings implement.
type listBody interface {
	next() ([]byte, error)
	offset() int64
}

// NewListReader returns a reader of the list in r. Any Content-Encoding must have been undone (see
// NewBody). It reads nothing yet.
func NewListReader(r io.Reader, enc Encoding, lim Limits) *ListReader {
	l := &ListReader{meta: ListMeta{RemainingItemCount: -1}}
	switch enc {
	case Protobuf:
		l.body = &protoList{buf: buffer{r: r, filled: true}, max: lim.maxObject(), list: l}
	default:
		l.body = &jsonList{jsonBody: jsonBody{buf: buffer{r: r, filled: true}}, max: lim.maxObject(), list: l}
	}
	return l
}

// Next returns the next item: in protobuf the item's message, in JSON its text. The bytes are valid
// until the next call and must not be written to. At a well-formed end of the list it returns
// io.EOF. A body that is a Status gives a *StatusError, one that ends too early a *SyntaxError that
// wraps io.ErrUnexpectedEOF. A *ItemError is about one item, and the next call returns the item
// after it. Every other error is final: later calls return it again.
func (l *ListReader) Next() ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	item, err := l.body.next()
	if err != nil && final(err) {
		l.err = err
	}
	return item, err
}

// TypeMeta returns the list's own apiVersion and kind, such as v1 PodList. In protobuf it is known
// after the first Next; in JSON it may be after the items, and is complete after io.EOF.
func (l *ListReader) TypeMeta() TypeMeta { return l.typeMeta }

// ItemTypeMeta returns the apiVersion and kind of the items as the list's own imply them: its kind
// without the final List. If the list states none, or none so far, they are those of the first
// item that states its own, and empty before such an item. An item of a JSON list that states its
// own has that type.
func (l *ListReader) ItemTypeMeta() TypeMeta {
	kind, ok := strings.CutSuffix(l.typeMeta.Kind, "List")
	if !ok || kind == "" {
		return l.itemType
	}
	return TypeMeta{APIVersion: l.typeMeta.APIVersion, Kind: kind}
}

// Meta returns the list's metadata. It is complete after io.EOF; kube-apiserver sends it before the
// items.
func (l *ListReader) Meta() ListMeta { return l.meta }

// Offset returns how many bytes of the body have been consumed, up to the end of the item last
// returned.
func (l *ListReader) Offset() int64 { return l.body.offset() }
