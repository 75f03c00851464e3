package wire

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"time"
)

// textFormat says how a protobuf value becomes the text that JSON has for it.
type textFormat uint8

const (
	textNone textFormat = iota
	textString
	textBytes
	textBool
	textInt32
	textInt64
	textUint
	textDouble
	textTime
	textMicroTime
	textDuration
	textQuantity
	textIntOrString
)

// textOf returns the textFormat of a type, or textNone if its values have no text.
func textOf(t reflect.Type) textFormat {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case timeType:
		return textTime
	case microTimeType:
		return textMicroTime
	case durationType:
		return textDuration
	case quantityType:
		return textQuantity
	case intOrStringType:
		return textIntOrString
	}
	switch t.Kind() {
	case reflect.String:
		return textString
	case reflect.Bool:
		return textBool
	case reflect.Int32:
		return textInt32
	case reflect.Int, reflect.Int64:
		return textInt64
	case reflect.Uint32, reflect.Uint64:
		return textUint
	case reflect.Float64:
		return textDouble
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return textBytes
		}
	}
	return textNone
}

// wireType returns the wire type of values that have this format.
func (tf textFormat) wireType() uint8 {
	switch tf {
	case textBool, textInt32, textInt64, textUint:
		return typeVarint
	case textDouble:
		return typeFixed64
	}
	return typeBytes
}

var textBools = [2][]byte{[]byte("false"), []byte("true")}

// text returns the text of a value. has is false if there is none, ok if the value is malformed.
func (tf textFormat) text(f *protoField) (text []byte, has, ok bool) {
	switch tf {
	case textString:
		return f.bytes, true, true
	case textBytes:
		return base64.StdEncoding.AppendEncode(nil, f.bytes), true, true
	case textBool:
		if f.varint != 0 {
			return textBools[1], true, true
		}
		return textBools[0], true, true
	case textInt32:
		return strconv.AppendInt(nil, int64(int32(f.varint)), 10), true, true
	case textInt64:
		return strconv.AppendInt(nil, int64(f.varint), 10), true, true
	case textUint:
		return strconv.AppendUint(nil, f.varint, 10), true, true
	case textDouble:
		b, err := json.Marshal(math.Float64frombits(f.varint))
		return b, true, err == nil
	case textTime, textMicroTime:
		return tf.timeText(f.bytes)
	}
	return tf.messageText(f.bytes)
}

// microTimeLayout is the layout of a MicroTime in JSON.
const microTimeLayout = "2006-01-02T15:04:05.000000Z07:00"

func (tf textFormat) timeText(b []byte) (text []byte, has, ok bool) {
	seconds, nanos, ok := protoTimestamp(b)
	if !ok || len(b) == 0 {
		return nil, false, ok
	}
	t := time.Unix(seconds, 0).UTC()
	if tf == textTime {
		return t.AppendFormat(nil, time.RFC3339), true, true
	}
	micros := int64(nanos) / 1000 * 1000
	return time.Unix(seconds, micros).UTC().AppendFormat(nil, microTimeLayout), true, true
}

// messageText returns the text of a message that is a single value in JSON.
func (tf textFormat) messageText(b []byte) (text []byte, has, ok bool) {
	var fields [4]protoField // by number
	var f protoField
	for i := 0; i < len(b); {
		if i = f.consume(b, i); i < 0 {
			return nil, false, false
		}
		if f.num < uint32(len(fields)) {
			fields[f.num] = f
		}
	}
	switch tf {
	case textDuration: // duration=1
		d := &fields[1]
		return []byte(time.Duration(d.varint).String()), true, d.num == 0 || d.typ == typeVarint
	case textQuantity: // string=1
		q := &fields[1]
		return q.bytes, q.num != 0, q.num == 0 || q.typ == typeBytes
	case textIntOrString: // type=1 (1: string), intVal=2, strVal=3
		typ, n, s := &fields[1], &fields[2], &fields[3]
		ok = (typ.num == 0 || typ.typ == typeVarint) && (n.num == 0 || n.typ == typeVarint) && (s.num == 0 || s.typ == typeBytes)
		if typ.varint == 1 {
			return s.bytes, true, ok
		}
		return strconv.AppendInt(nil, int64(int32(n.varint)), 10), true, ok
	}
	return nil, false, true
}

// empty reports whether JSON's omitempty leaves the value out.
func (tf textFormat) empty(f *protoField) bool {
	switch tf {
	case textString, textBytes:
		return len(f.bytes) == 0
	case textBool, textInt32, textInt64, textUint:
		return f.varint == 0
	case textDouble:
		return math.Float64frombits(f.varint) == 0
	}
	return false
}
