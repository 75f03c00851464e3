package wire

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
)

// LabelSet returns all labels as one text. Two objects have equal texts exactly if they have the
// same labels; see EachLabel. The text is valid until the next call of a method of m.
func (m *Meta) LabelSet() []byte {
	set, last, ordered := m.set[:0], []byte(nil), true
	for key, value := range m.Labels() {
		if ordered = ordered && (len(set) == 0 || bytes.Compare(last, key) < 0); !ordered {
			break
		}
		at := len(set) + uvarintLen(len(key))
		set = appendLabel(set, key, value)
		last = set[at:][:len(key)]
	}
	if m.set = set; !ordered {
		m.set = m.sortedSet()
	}
	return m.set
}

// sortedSet returns LabelSet's text of labels that are out of order or have duplicate keys.
// Kubernetes' encoders write no such labels.
func (m *Meta) sortedSet() (set []byte) {
	var keys []string
	for key := range m.Labels() {
		keys = append(keys, string(key))
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		value, _ := m.Label(key)
		set = appendLabel(set, []byte(key), value)
	}
	return set
}

// LabelSetOf returns the text that Meta.LabelSet returns for these labels.
func LabelSetOf(labels map[string]string) (set []byte) {
	keys := make([]string, 0, len(labels))
	for key := range labels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		set = appendLabel(set, []byte(key), []byte(labels[key]))
	}
	return set
}

// EachLabel yields the labels in a text of LabelSet, ordered by key. It stops where the text is
// malformed.
func EachLabel(set string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for len(set) > 0 {
			var key, value string
			var ok bool
			if key, set, ok = cutText(set); !ok {
				return
			}
			if value, set, ok = cutText(set); !ok || !yield(key, value) {
				return
			}
		}
	}
}

func appendLabel(set, key, value []byte) []byte {
	set = append(binary.AppendUvarint(set, uint64(len(key))), key...)
	return append(binary.AppendUvarint(set, uint64(len(value))), value...)
}

// cutText cuts a length prefix and that many bytes off s.
func cutText(s string) (text, rest string, ok bool) {
	var size uint64
	for i := 0; i < len(s) && i < binary.MaxVarintLen32; i++ {
		size |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			rest = s[i+1:]
			if size > uint64(len(rest)) {
				return "", "", false
			}
			return rest[:size], rest[size:], true
		}
	}
	return "", "", false
}

func uvarintLen(n int) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutUvarint(b[:], uint64(n))
}
