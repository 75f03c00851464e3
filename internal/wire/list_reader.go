package wire

import (
	"io"
	"strings"
)

// ListReader cuts the body of a LIST into its items. It holds one read buffer and one item. It
// reads ahead no further than that buffer, starts no goroutine, and does not close the body. It is
// not safe for concurrent use.
type ListReader struct {
	body     listBody
	err      error
	typeMeta TypeMeta
	itemType TypeMeta // of the first item that told, where the list's own implied nothing before it
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
		l.body = &jsonList{jsonStream: jsonStream{buf: buffer{r: r, filled: true}}, max: lim.maxObject(), list: l}
	}
	return l
}

// Next returns the next item: in protobuf the item's message, in JSON its text. The bytes are valid
// until the next call and must not be written to. At a well-formed end of the list it returns
// io.EOF. A body that is a Status gives a *StatusError, one that ends too early a *SyntaxError that
// wraps io.ErrUnexpectedEOF. A *ItemError is about one item, and the next call returns the item
// behind it. Every other error is final: later calls return it again.
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
// after the first Next; in JSON it may stand behind the items, and is complete after io.EOF.
func (l *ListReader) TypeMeta() TypeMeta { return l.typeMeta }

// ItemTypeMeta returns the apiVersion and kind of the items as the list's own imply them: its kind
// without the final List. Where that says nothing, or not yet, they are those of the first item
// that has carried its own, and empty before one has. Items of JSON lists may carry their own,
// which then counts for them.
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
