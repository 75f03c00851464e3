package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrItemsSize is wrapped by the error of a ListWriter whose items do not have the announced size.
var ErrItemsSize = errors.New("items are not of the size announced")

// ListForm is the form of a list in JSON, in which kube-apiserver writes lists of different Go
// types differently. Protobuf has one form.
type ListForm uint8

const (
	// TypedList is the form of lists of built-in kinds.
	TypedList ListForm = iota
	// MetadataList is that of a PartialObjectMetadataList: without items it has null for them.
	MetadataList
	// UnstructuredList is that of lists of custom resources: the members are in alphabetical order,
	// and metadata.continue is there also if it is empty.
	UnstructuredList
)

// ListWriter frames objects into the body of a LIST. It does not buffer, so the underlying writer
// should if items are small. It is not safe for concurrent use.
type ListWriter struct {
	// Form is the form of the list in JSON. It must be set before anything is written.
	Form     ListForm
	w        io.Writer
	enc      Encoding
	typeMeta TypeMeta
	meta     ListMeta
	left     int64 // protobuf: what is left of itemsSize
	open     bool
	items    bool // JSON: one has been written
	head     []byte
	err      error
}

// ListItemSize returns how many bytes an item of n bytes takes in a protobuf list.
func ListItemSize(n int) int64 { return int64(bytesSize(n)) }

// NewListWriter returns a writer of a list of the given type (such as v1 PodList) and metadata,
// whose RemainingItemCount is left out if it is not above 0, and ShardSelector if it is empty. It
// writes nothing before the first WriteItem or Close.
//
// Protobuf puts the length of the whole list before its items, so itemsSize must be the sum of
// ListItemSize over all of them. In JSON it is not looked at.
func NewListWriter(w io.Writer, enc Encoding, tm TypeMeta, m ListMeta, itemsSize int64) *ListWriter {
	return &ListWriter{w: w, enc: enc, typeMeta: tm, meta: m, left: itemsSize}
}

// WriteItem writes one item. It keeps nothing of object. JSON items may lack kind and apiVersion,
// as those of built-in kinds do. More items than itemsSize said is ErrItemsSize. After an error the
// body is of no use, and the error is returned again.
func (l *ListWriter) WriteItem(object []byte) error {
	if err := l.StartItem(len(object)); err != nil {
		return err
	}
	_, err := l.w.Write(object)
	return l.fail(err)
}

// StartItem writes what stands before an item of size bytes. The caller then writes the item itself
// to the underlying writer, whole. It is WriteItem for items that come into being where they are to
// be. Same errors.
func (l *ListWriter) StartItem(size int) error {
	if l.err != nil {
		return l.err
	}
	l.head = l.start(l.head[:0])
	if l.enc == Protobuf {
		if l.left -= ListItemSize(size); l.left < 0 {
			return l.fail(fmt.Errorf("%w: %d bytes too many", ErrItemsSize, -l.left))
		}
		l.head = appendTag(l.head, listItems, typeBytes)
		l.head = binary.AppendUvarint(l.head, uint64(size))
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

// Close writes the end of the list; it does not close the underlying writer. Fewer items than
// itemsSize said is ErrItemsSize.
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

// start appends what stands before the first item, once.
func (l *ListWriter) start(dst []byte) []byte {
	if l.open {
		return dst
	}
	l.open = true
	if l.enc != Protobuf {
		return l.appendJSONStart(dst)
	}
	meta := l.meta.appendProto(nil)
	dst = append(dst, protoMagic...)
	dst = appendTypeMeta(dst, l.typeMeta)
	dst = appendTag(dst, unknownRaw, typeBytes)
	dst = binary.AppendUvarint(dst, uint64(bytesSize(len(meta)))+uint64(l.left))
	return appendBytes(dst, listMetadata, meta)
}

func (m *ListMeta) appendProto(dst []byte) []byte {
	dst = appendBytes(dst, 1, "") // selfLink, which apimachinery still writes
	dst = appendBytes(dst, listMetaResourceVersion, m.ResourceVersion)
	dst = appendBytes(dst, listMetaContinue, m.Continue)
	if m.RemainingItemCount > 0 {
		dst = appendTag(dst, listMetaRemaining, typeVarint)
		dst = binary.AppendUvarint(dst, uint64(m.RemainingItemCount))
	}
	if m.ShardSelector != "" {
		dst = appendBytes(dst, listMetaShardInfo, appendBytes(nil, shardInfoSelector, m.ShardSelector))
	}
	return dst
}
