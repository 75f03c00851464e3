package wire

// DefaultMaxObject is the default of Limits.MaxObject, in bytes.
const DefaultMaxObject = 16 << 20

// MaxDepth bounds the nesting of JSON, counted from the root of a body. encoding/json has the same
// limit.
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
	// RemainingItemCount is the number of items after this page, or -1 if the server does not say.
	RemainingItemCount int64
	// ShardSelector is the shard selector (KEP-5866) that the server has applied, as the server
	// writes it. It is empty if the server has applied none or does not say.
	ShardSelector string
}
