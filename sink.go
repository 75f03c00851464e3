package weir

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/wire"
)

// Sink stores the server's state outside an informer's memory, for example in a database. Mirror
// writes to it. One goroutine calls all methods. A method may block: events from the server then
// wait. If a method returns an error, Mirror returns the error. If a replace is active, Mirror
// first calls AbortReplace.
//
// A replace transfers one whole state of the server: BeginReplace, Put for each object, EndReplace.
// Mirror starts with a replace, unless ResourceVersion returns a version. Another replace follows
// each time that Mirror cannot resume a watch. The state of a replace is valid only when Mirror
// calls EndReplace. Until then it may be older than the sink's state, because a replica of the
// server can lag. A sink therefore stores the objects of a replace separately until EndReplace. A
// sink that cannot do so must not store a ResourceVersion between BeginReplace and the next
// EndReplace. If Commit passes a version after an AbortReplace, such a sink must not store this
// version either: the sink's objects may be older.
//
// After a replace, Mirror passes the changes in order, with Put and Delete, and calls Commit after
// every few changes.
//
// A stored ResourceVersion is valid only for the same server, resource, namespace, selector, shard
// and T. If one of them changes, start with an empty sink. If the server was restored from a backup
// while Mirror did not run, and has since passed the stored version, Mirror cannot detect the
// restore.
type Sink interface {
	// ResourceVersion returns the version of the last Commit or EndReplace if the sink has stored that
	// version, otherwise "". Mirror calls ResourceVersion once and resumes from the returned version.
	// If the server no longer has the changes since that version, a replace follows.
	ResourceVersion() (string, error)

	// BeginReplace starts a replace. The previous replace has ended or was aborted.
	BeginReplace() error
	// EndReplace ends the replace: the sink's new state is exactly the objects that Put has added
	// since BeginReplace and Delete has not removed. The argument is the version of this state, or ""
	// if the server's lists have no resourceVersion.
	EndReplace(resourceVersion string) error
	// AbortReplace abandons the replace, because it broke off, its state is not valid, or ctx has
	// ended. The sink keeps its state from before the replace.
	AbortReplace() error

	// Put adds an object, or replaces the object of the same namespace and name. Mirror may put the
	// same version again: in a replace after a page broke off, or after a restart of Mirror. The
	// record's Raw is valid only during the call.
	Put(Record) error
	// Delete removes the object of a namespace and name, if the sink has one. The record is the
	// object's last state, with one exception: if Mirror detects the deletion only because a new
	// object of another shard has the same name, the record has only namespace and name. Mirror may
	// also call Delete during a replace.
	Delete(Record) error
	// Commit reports that the sink has received everything up to a resourceVersion, except for objects
	// that Mirror cannot read. Status.Skipped counts the unreadable objects; a sink that must receive
	// them later has to discard its stored version, so that the next Mirror starts with a replace.
	// Mirror calls Commit before each wait for the network and after at most 128 changes. It also
	// calls Commit without a change, when the server reports that nothing changed. It does not call
	// Commit during a replace. The version is "" if Mirror could not resume a watch from the sink's
	// state: for example after an EndReplace with version "".
	Commit(resourceVersion string) error
}

// Record is one version of an object in the server's encoding. It must not be modified.
type Record struct {
	Namespace       string // "" if it has none
	Name            string
	UID             string
	ResourceVersion string
	// Kind is the object's kind. It may be empty until the server has sent the kind. kube-apiserver
	// sends the kind before or in the first object.
	Kind schema.GroupVersionKind
	// Value is the object in a record of Reflect: a T, which the ListerWatcher returned and which may
	// be shared. Encoding is then 0 and Raw is nil. In a record of Mirror, Value is nil.
	Value    any
	Encoding Encoding
	// Raw is the encoded object without the fields in Options.DropFields. Decode decodes it. In JSON
	// lists of built-in kinds the objects have no apiVersion and kind. Raw is valid only during the
	// call of Put or Delete.
	Raw []byte
}

// recordOf returns a record. Its strings share one allocation.
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

// Decode decodes the bytes of an object, such as Record.Raw or the result of Item.AppendRaw. It
// detects the encoding. The caller may modify the object. If the object cannot be decoded, the
// error names the object. The error is ErrNotFound if raw is empty, and ErrInvalidOptions if T is
// not a pointer to a struct.
func Decode[T Object](raw []byte) (T, error) {
	var zero T
	c := codec.New(reflect.TypeFor[T]())
	if c.Type() == nil {
		return zero, optionsError(fmt.Errorf("an object's type is a pointer to a struct, not %T", zero))
	}
	if len(raw) == 0 {
		return zero, ErrNotFound
	}
	value, err := c.Decode(raw, nil)
	if err != nil {
		return zero, err
	}
	return value.(T), nil
}
