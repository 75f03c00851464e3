package clientgo

import (
	"bytes"
	"hash/maphash"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproject/weir/internal/decode"
)

// pairs decodes two versions of an object at once. What is the same in both, such as the spec of a pod whose status has
// changed, is decoded once and shared by the two: they are read-only. It works for protobuf alone; with JSON the two are
// decoded apart. Safe for concurrent use.
type pairs struct {
	goType   reflect.Type
	protobuf *decode.Decoder
	fields   map[protowire.Number]int // of the struct; nil: the type has no protobuf form
	scratch  sync.Pool                // of *pairScratch
}

type pairScratch struct {
	was, is, changed []byte
	wasParts, parts  []part
	same             []int // the fields of the struct that have not changed
}

// part is all of one field of a message: its bytes with their tags, or, where those are not at hand, their hash.
type part struct {
	number protowire.Number
	bytes  []byte
	sum    sum // where bytes is nil
}

// sum stands for bytes that are not at hand: 128 bits of two hashes with seeds of this process, so that different bytes
// will not have the same one, by chance or by design.
type sum [2]uint64

var sumSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func sumOf(b []byte) sum {
	return sum{maphash.Bytes(sumSeeds[0], b), maphash.Bytes(sumSeeds[1], b)}
}

func (p part) same(as part) bool {
	if p.bytes == nil {
		return p.sum == sumOf(as.bytes)
	}
	return bytes.Equal(p.bytes, as.bytes)
}

// sums are parts without their bytes, to compare others with.
func sums(parts []part) []part {
	bare := make([]part, len(parts))
	for i, p := range parts {
		bare[i] = part{number: p.number, sum: sumOf(p.bytes)}
	}
	return bare
}

func newPairs(goType reflect.Type) *pairs {
	p := &pairs{goType: goType, protobuf: decode.For(goType), scratch: sync.Pool{New: func() any { return new(pairScratch) }}}
	if p.protobuf == nil {
		return p
	}
	for i := range goType.Elem().NumField() {
		tag, ok := goType.Elem().Field(i).Tag.Lookup("protobuf")
		if !ok {
			continue
		}
		words := strings.Split(tag, ",")
		if len(words) < 2 {
			continue
		}
		if number, err := strconv.Atoi(words[1]); err == nil {
			if p.fields == nil {
				p.fields = map[protowire.Number]int{}
			}
			p.fields[protowire.Number(number)] = i
		}
	}
	return p
}

// decode makes the value of is, sharing with old, the value of was, what is the same. It reports false where it cannot.
// wasParts is set, or was.
func (p *pairs) decode(old any, sc *pairScratch) (any, bool) {
	sc.parts = sc.parts[:0]
	if p.fields == nil {
		return nil, false
	}
	var ok bool
	if len(sc.wasParts) == 0 {
		if sc.wasParts, ok = partsOf(sc.wasParts[:0], sc.was); !ok {
			return nil, false
		}
	}
	if sc.parts, ok = partsOf(sc.parts[:0], sc.is); !ok {
		return nil, false
	}
	sc.changed, sc.same = sc.changed[:0], sc.same[:0]
	before := sc.wasParts
	for _, part := range sc.parts {
		for len(before) > 0 && before[0].number < part.number {
			before = before[1:]
		}
		field, known := p.fields[part.number]
		if !known {
			return nil, false
		}
		if len(before) > 0 && before[0].number == part.number && before[0].same(part) {
			sc.same = append(sc.same, field)
			continue
		}
		sc.changed = append(sc.changed, part.bytes...)
	}
	value, err := p.protobuf.Decode(sc.changed)
	if err != nil {
		return nil, false
	}
	for _, field := range sc.same {
		reflect.ValueOf(value).Elem().Field(field).Set(reflect.ValueOf(old).Elem().Field(field))
	}
	return value, true
}

// partsOf cuts a message into its fields. It reports false unless they are in the order of their numbers, as every Go
// encoder writes them: only then is a field all in one place.
func partsOf(parts []part, message []byte) ([]part, bool) {
	if len(message) > 0 && message[0] == '{' {
		return parts, false
	}
	for begin, end := 0, 0; end < len(message); {
		number, _, n := protowire.ConsumeField(message[end:])
		if n < 0 {
			return parts, false
		}
		last := len(parts) - 1
		switch {
		case last >= 0 && parts[last].number == number:
			parts[last].bytes = message[begin : end+n]
		case last >= 0 && parts[last].number > number:
			return parts, false
		default:
			begin = end
			parts = append(parts, part{number: number, bytes: message[begin : end+n]})
		}
		end += n
	}
	return parts, true
}
