package wire

// DefaultMaxObject is the largest object taken when Limits says nothing else, in bytes.
const DefaultMaxObject = 16 << 20

// MaxDepth is how deep JSON may be nested, counted from the root of a body. encoding/json has the
// same limit.
const MaxDepth = 10_000

// Limits bounds what a reader takes. The zero value is the default.
type Limits struct {
	// MaxObject is the size of the largest object, in bytes; one above it is ErrTooLarge. A
	// reader's memory is at most about this and its read buffer, and only if such an object really
	// arrives. 0 is DefaultMaxObject.
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
	// Continue is the token for the next page, empty on the last.
	Continue string
	// RemainingItemCount is how many items come after this page, -1 if the server does not say.
	RemainingItemCount int64
	// ShardSelector is the selector that the server has applied (KEP-5866), as it writes it; empty:
	// it has applied none, or does not say.
	ShardSelector string
}
