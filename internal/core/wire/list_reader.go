package wire

import (
	"io"
	"strings"
)

// DefaultMaxObject is the default of Limits.MaxObject, in bytes.
const DefaultMaxObject = 16 << 20

// MaxDepth is the maximum nesting of JSON, counted from the root of a body. It bounds the stack of
// a scan to a few megabytes. encoding/json has the same limit.
const MaxDepth = 10_000

// Limits bounds a reader's memory. The zero value means the defaults.
type Limits struct {
	// MaxObject is the maximum size of an object, in bytes. The error for a larger object wraps
	// ErrTooLarge. A reader's buffer grows by doubling while an object arrives, so it may reach about
	// twice MaxObject. 0 or less means DefaultMaxObject.
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
	// Continue is the token for the next page. It is empty on the last page.
	Continue string
	// RemainingItemCount is the number of items after this page, or -1 if the server does not send
	// that number.
	RemainingItemCount int64
	// ShardSelector is the shard selector (KEP-5866) that the server says it applied, or empty.
	ShardSelector string
}

// ListReader splits the body of a LIST into its items. It has one read buffer, which contains the
// current item, and reads ahead at most one buffer. It starts no goroutine and does not close the
// body. It is not safe for concurrent use.
type ListReader struct {
	body     listBody
	err      error
	typeMeta TypeMeta
	// the type of the first item that states one, if the list states its type later or not at all
	itemType TypeMeta
	meta     ListMeta
}

type listBody interface {
	next() ([]byte, error)
	offset() int64
}

// NewListReader returns a reader of the list in r. r must contain the decoded body, without a
// Content-Encoding (see NewBody). NewListReader does not read from r.
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

// Next returns the next item: a protobuf message or a JSON text. The bytes are valid until the next
// call and must not be modified. At a well-formed end of the list Next returns io.EOF. If the body
// is a Status, the error is a *StatusError. If the body ends too early, the error is a *SyntaxError
// that wraps io.ErrUnexpectedEOF. An *ItemError concerns one item only, and the next call returns
// the item after it. Every other error is final: later calls return it again.
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

// TypeMeta returns the list's own apiVersion and kind, such as v1 PodList. In protobuf they are set
// after the first Next. In JSON they may follow the items, so they may be set only when Next
// returns io.EOF.
func (l *ListReader) TypeMeta() TypeMeta { return l.typeMeta }

// ItemTypeMeta returns the apiVersion and kind of the items. The kind is the list's kind without
// List at its end. Until the list has stated its type, ItemTypeMeta returns the type of the first
// item that states a type. Before such an item, it returns the zero value. If an item of a JSON
// list states a type that differs from ItemTypeMeta, the item's own type is right.
func (l *ListReader) ItemTypeMeta() TypeMeta {
	kind, ok := strings.CutSuffix(l.typeMeta.Kind, "List")
	if !ok || kind == "" {
		return l.itemType
	}
	return TypeMeta{APIVersion: l.typeMeta.APIVersion, Kind: kind}
}

// Meta returns the list's metadata. It is complete after io.EOF. kube-apiserver sends the metadata
// after the items if they are custom resources, and before the items otherwise.
func (l *ListReader) Meta() ListMeta { return l.meta }

// Offset returns the number of consumed bytes of the body, up to the end of the last returned item.
func (l *ListReader) Offset() int64 { return l.body.offset() }
