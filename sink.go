package weir

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/wire"
)

// Sink stores the server's state in another place than an informer's memory, such as a database.
// Mirror writes to it. One goroutine calls its methods. They may block it: the server's events
// wait meanwhile. An error from any of them ends Mirror, which then calls only AbortReplace, if it
// has called BeginReplace.
//
// A replace is one whole state of the server: BeginReplace, Put for each object, EndReplace. It is
// the first call, unless the sink has a ResourceVersion, and follows whenever a watch cannot
// continue. It may be older than the sink's state, because a replica can lag, and it is valid only
// when EndReplace is called. So a sink stores a replace separately until then. A sink that cannot
// do that must not keep a ResourceVersion between BeginReplace and the next EndReplace, even if
// Commit passes one: after an AbortReplace objects may be older than that.
//
// The changes follow in order: Put and Delete, and Commit after each few of them.
//
// A stored ResourceVersion is valid only for the same server, resource, namespace, selector, shard
// and T; for others a sink starts empty. Mirror cannot detect that a server was restored from a
// backup while Mirror did not run, if the server has passed that version again.
type Sink interface {
	// ResourceVersion returns the version of the last Commit or EndReplace, if the sink has stored it,
	// or "". Mirror calls it once and resumes there. If the server has forgotten that version, a
	// replace follows.
	ResourceVersion() (string, error)

	// BeginReplace starts a replace. A previous one has been ended or aborted.
	BeginReplace() error
	// EndReplace ends the replace: the sink's state is the objects that were put since BeginReplace,
	// and no others, as of the resourceVersion. That is "" if the server's lists have none.
	EndReplace(resourceVersion string) error
	// AbortReplace abandons the replace, because it broke off or its state is not valid. The sink's
	// state before it remains.
	AbortReplace() error

	// Put adds an object or replaces the one of the same namespace and name. It may receive the same
	// version again: in a replace after a page broke off, or after Mirror was restarted. The record's
	// Raw is valid during the call.
	Put(Record) error
	// Delete removes the object of a namespace and name, if the sink has it. The record is its last
	// state. It has only namespace and name if another object, in another shard, has taken the name
	// and the server did not report the deletion. A replace with initial events may contain deletions
	// too.
	Delete(Record) error
	// Commit reports that the sink has received everything up to a resourceVersion, except for objects
	// that cannot be read. Status.Skipped counts those; a sink that must receive them later has to
	// forget its version. Mirror calls Commit before each wait for the network, at the latest after
	// 128 changes, and without a change when the server reports that there was none. It does not call
	// it during a replace. The version is "" if that of the last EndReplace was.
	Commit(resourceVersion string) error
}

// Record is one version of an object in the server's encoding. It is immutable.
type Record struct {
	Namespace       string // "" if it has none
	Name            string
	UID             string
	ResourceVersion string
	// Kind is the object's kind. It is empty until the server has sent it, which kube-apiserver does
	// before or in the first object.
	Kind     schema.GroupVersionKind
	Encoding Encoding
	// Raw is the encoded object without the fields in Options.DropFields. Decode decodes it. JSON
	// objects from lists of built-in kinds have no apiVersion and kind.
	Raw []byte
}

// recordOf returns a record whose strings are parts of one string.
func recordOf(m *wire.Meta, gvk schema.GroupVersionKind, enc wire.Encoding, raw []byte) Record {
	buf := make([]byte, 0, len(m.Namespace)+len(m.Name)+len(m.UID)+len(m.ResourceVersion))
	buf = append(append(append(append(buf, m.Namespace...), m.Name...), m.UID...), m.ResourceVersion...)
	all, from := string(buf), 0
	next := func(n int) string {
		from += n
		return all[from-n : from]
	}
	return Record{
		Namespace: next(len(m.Namespace)), Name: next(len(m.Name)), UID: next(len(m.UID)), ResourceVersion: next(len(m.ResourceVersion)),
		Kind: gvk, Encoding: Encoding(enc), Raw: raw,
	}
}

// Decode decodes an object's bytes, such as Record.Raw or the result of Item.AppendRaw, for the
// caller alone, who may modify it. It detects the encoding. The error names the object that cannot
// be decoded; it is ErrNotFound if raw is empty.
func Decode[T Object](raw []byte) (T, error) {
	var zero T
	c := codec.New(reflect.TypeFor[T]())
	if c.Type() == nil {
		return zero, optionsError(fmt.Errorf("an object's type is a pointer to a struct, not %T", zero))
	}
	if len(raw) == 0 {
		return zero, ErrNotFound
	}
	value, err := c.Decode(raw)
	if err != nil {
		return zero, err
	}
	return value.(T), nil
}
