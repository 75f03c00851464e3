package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrItemsSize is wrapped by the error of a ListWriter if the items' total size is not the
// announced size.
var ErrItemsSize = errors.New("items are not of the size announced")

// ListForm is the form of a JSON list. kube-apiserver writes typed lists, lists of custom resources
// and lists of PartialObjectMetadata in different forms. A protobuf list has only one form.
type ListForm uint8

const (
	// TypedList is the form of lists of built-in kinds, which kube-apiserver encodes from Go structs.
	TypedList ListForm = iota
	// MetadataList is the form of a PartialObjectMetadataList. If the list is empty, its items are
	// null.
	MetadataList
	// UnstructuredList is the form of lists of custom resources: the members are in alphabetical
	// order, and metadata.continue is written even if it is empty.
	UnstructuredList
)

// ListWriter writes objects as the body of a LIST. It does not buffer: if the items are small, the
// underlying writer should be buffered. It is not safe for concurrent use.
type ListWriter struct {
	// Form is the form of a JSON list. It must be set before the first write.
	Form     ListForm
	w        io.Writer
	enc      Encoding
	typeMeta TypeMeta
	meta     ListMeta
	left     int64 // protobuf: the part of itemsSize that has not been written
	open     bool
	items    bool // JSON: an item has been written
	head     []byte
	err      error
}

// ListItemSize returns the number of bytes that an item of n bytes adds to a protobuf list.
func ListItemSize(n int) int64 { return int64(bytesSize(n)) }

// NewListWriter returns a writer of a list of type tm (such as v1 PodList) with metadata m. It
// omits a RemainingItemCount that is not above 0, and an empty ShardSelector. It writes nothing
// before the first WriteItem, StartItem or Close.
//
// In protobuf, the length of the whole list precedes the items, so itemsSize must be the sum of
// ListItemSize over all items. In JSON, itemsSize is ignored.
func NewListWriter(w io.Writer, enc Encoding, tm TypeMeta, m ListMeta, itemsSize int64) *ListWriter {
	return &ListWriter{w: w, enc: enc, typeMeta: tm, meta: m, left: itemsSize}
}

// WriteItem writes one item. It does not retain object. JSON items may lack kind and apiVersion, as
// the items of built-in kinds do. The error wraps ErrItemsSize if the items are larger than the
// announced itemsSize. After an error the body is incomplete and cannot be repaired, and later
// calls return the error again.
func (l *ListWriter) WriteItem(object []byte) error {
	if err := l.StartItem(len(object)); err != nil {
		return err
	}
	_, err := l.w.Write(object)
	return l.fail(err)
}

// StartItem writes the bytes that precede an item of the given size. The caller must then write the
// whole item to the underlying writer. Use StartItem instead of WriteItem to encode an item
// directly into the underlying writer. It returns the same errors as WriteItem.
func (l *ListWriter) StartItem(size int) error {
	if l.err != nil {
		return l.err
	}
	l.head = l.start(l.head[:0])
	if l.enc == Protobuf {
		if l.left -= ListItemSize(size); l.left < 0 {
			return l.fail(fmt.Errorf("%w: %d bytes too many", ErrItemsSize, -l.left))
		}
		l.head = appendLength(l.head, listItems, size)
	} else if l.items {
		l.head = append(l.head, ',')
	} else {
		l.head = append(l.head, '[')
	}
	l.items = true
	if len(l.head) == 0 {
		return nil
	}
	_, err := l.w.Write(l.head)
	return l.fail(err)
}

// Close writes the end of the list; it does not close the underlying writer. The error wraps
// ErrItemsSize if the items are smaller than the announced itemsSize.
func (l *ListWriter) Close() error {
	if l.err != nil {
		return l.err
	}
	l.head = l.start(l.head[:0])
	if l.enc == Protobuf {
		if l.left != 0 {
			return l.fail(fmt.Errorf("%w: %d bytes missing", ErrItemsSize, l.left))
		}
		l.head = append(l.head, envelopeEnd...)
	} else {
		l.head = l.appendJSONEnd(l.head)
	}
	_, err := l.w.Write(l.head)
	return l.fail(err)
}

func (l *ListWriter) fail(err error) error {
	l.err = err
	return err
}

// start appends the bytes before the first item. Only the first call appends something.
func (l *ListWriter) start(dst []byte) []byte {
	if l.open {
		return dst
	}
	l.open = true
	if l.enc != Protobuf {
		return l.appendJSONStart(dst)
	}
	meta, err := l.meta.protobuf()
	if err != nil {
		l.err = err
	}
	dst = appendTypeMeta(append(dst, protoMagic...), l.typeMeta)
	dst = appendTag(dst, unknownRaw, typeBytes)
	dst = binary.AppendUvarint(dst, uint64(bytesSize(len(meta)))+uint64(l.left))
	return appendBytes(dst, listMetadata, meta)
}

// protobuf returns m as a metav1.ListMeta in protobuf. It appends the field shardInfo, because the
// ListMeta of the oldest supported apimachinery lacks that field.
func (m *ListMeta) protobuf() ([]byte, error) {
	api := metav1.ListMeta{ResourceVersion: m.ResourceVersion, Continue: m.Continue}
	if m.RemainingItemCount > 0 {
		api.RemainingItemCount = &m.RemainingItemCount
	}
	raw, err := api.Marshal()
	if err == nil && m.ShardSelector != "" {
		raw = appendBytes(raw, listMetaShardInfo, appendBytes(nil, shardInfoSelector, []byte(m.ShardSelector)))
	}
	return raw, err
}

// JSON returns m as kube-apiserver writes the metadata of a list in JSON.
func (m *ListMeta) JSON() []byte {
	return marshalJSON(struct {
		ResourceVersion    string     `json:"resourceVersion,omitempty"`
		Continue           string     `json:"continue,omitempty"`
		RemainingItemCount int64      `json:"remainingItemCount,omitempty"`
		ShardInfo          *shardMeta `json:"shardInfo,omitempty"`
	}{m.ResourceVersion, m.Continue, max(m.RemainingItemCount, 0), m.shardMeta()})
}

type shardMeta struct {
	Selector string `json:"selector"`
}

func (m *ListMeta) shardMeta() *shardMeta {
	if m.ShardSelector == "" {
		return nil
	}
	return &shardMeta{m.ShardSelector}
}

// unstructuredMeta is the metadata of an UnstructuredList.
type unstructuredMeta struct {
	Continue           string     `json:"continue"`
	RemainingItemCount int64      `json:"remainingItemCount,omitempty"`
	ResourceVersion    string     `json:"resourceVersion,omitempty"`
	ShardInfo          *shardMeta `json:"shardInfo,omitempty"`
}

// appendJSONStart appends the text that precedes the items of a list.
func (l *ListWriter) appendJSONStart(dst []byte) []byte {
	version := marshalJSON(l.typeMeta.APIVersion)
	if l.Form == UnstructuredList {
		return fmt.Appendf(dst, `{"apiVersion":%s,"items":`, version)
	}
	return fmt.Appendf(dst, `{"kind":%s,"apiVersion":%s,"metadata":%s,"items":`, marshalJSON(l.typeMeta.Kind), version, l.meta.JSON())
}

// appendJSONEnd appends the end of the items, and the text after them.
func (l *ListWriter) appendJSONEnd(dst []byte) []byte {
	switch {
	case l.items:
		dst = append(dst, ']')
	case l.Form == MetadataList:
		dst = append(dst, "null"...)
	default:
		dst = append(dst, "[]"...)
	}
	if l.Form != UnstructuredList {
		return append(dst, "}\n"...)
	}
	m := &l.meta
	meta := unstructuredMeta{m.Continue, max(m.RemainingItemCount, 0), m.ResourceVersion, m.shardMeta()}
	return fmt.Appendf(dst, `,"kind":%s,"metadata":%s}`+"\n", marshalJSON(l.typeMeta.Kind), marshalJSON(meta))
}
