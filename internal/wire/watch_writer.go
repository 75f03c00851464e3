package wire

import (
	"encoding/binary"
	"io"
)

// keepBuffer is the largest buffer that a writer keeps for its next object, in bytes.
const keepBuffer = 1 << 20

// WatchWriter writes events as the body of a WATCH, each with one Write. It buffers one event. It
// is not safe for concurrent use.
type WatchWriter struct {
	w   io.Writer
	enc Encoding
	buf []byte
}

// NewWatchWriter returns a writer that writes to w.
func NewWatchWriter(w io.Writer, enc Encoding) *WatchWriter { return &WatchWriter{w: w, enc: enc} }

// WriteEvent writes one event. It keeps nothing of object, which is written as AppendObject does.
func (w *WatchWriter) WriteEvent(t EventType, tm TypeMeta, object []byte) error {
	w.buf = AppendEvent(w.buf[:0], w.enc, t, tm, object)
	_, err := w.w.Write(w.buf)
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
	return err
}

// AppendEvent appends one event as WriteEvent writes it. Several watchers can share the bytes.
func AppendEvent(dst []byte, enc Encoding, t EventType, tm TypeMeta, object []byte) []byte {
	if enc != Protobuf {
		dst = append(dst, `{"type":"`...)
		dst = append(dst, t.String()...)
		dst = append(dst, `","object":`...)
		dst = AppendObject(dst, enc, tm, object)
		return append(dst, '}', '\n')
	}
	name := t.String()
	inner := envelopeSize(tm, len(object))
	extension := bytesSize(inner)
	dst = binary.BigEndian.AppendUint32(dst, uint32(bytesSize(len(name))+bytesSize(extension)))
	dst = appendBytes(dst, watchEventType, name)
	dst = appendTag(dst, watchEventObject, typeBytes)
	dst = binary.AppendUvarint(dst, uint64(extension))
	dst = appendTag(dst, rawExtensionRaw, typeBytes)
	dst = binary.AppendUvarint(dst, uint64(inner))
	return appendEnvelope(dst, tm, object)
}
