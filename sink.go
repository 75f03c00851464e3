package weir

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/codec"
	"github.com/weirproject/weir/internal/wire"
)

// Sink is another place than an informer's memory for what the server has: a database, say. Reflect
// writes to it. Its methods are called by one goroutine and may block it: the server's events wait
// meanwhile. The error of any of them ends Reflect; after it only AbortReplace is called, if
// BeginReplace was.
//
// A replace is one whole state of the server: BeginReplace, Put for each object, EndReplace. It
// comes first unless the sink has a ResourceVersion, and again where a watch cannot go on. It may
// be older than what the sink has, because a replica can lag, and only EndReplace says that it
// counts. So a sink keeps what comes in a replace apart until then. A sink that cannot do that must
// not keep a ResourceVersion between BeginReplace and the next EndReplace, not even if Commit
// passes one: after an AbortReplace objects may be older than that.
//
// What follows are the changes, in their order: Put and Delete, and Commit after each few of them.
//
// A ResourceVersion that was kept is right for the same server, resource, namespace, selector,
// shard and T only: with others a sink begins empty. A server that was restored from a backup while
// Reflect did not run, and has come past that version again, cannot be told from one that was not.
type Sink interface {
	// ResourceVersion returns the version that the last Commit or EndReplace passed, where the sink
	// has kept it, and "" if there was none. Reflect calls it once and resumes there; if the server
	// has forgotten that version, a replace follows.
	ResourceVersion() (string, error)

	// BeginReplace begins a replace. One that was begun before has been aborted.
	BeginReplace() error
	// EndReplace ends it: the sink has what was put since BeginReplace, and nothing else, as of the
	// resourceVersion. That is "" where the server's lists have none.
	EndReplace(resourceVersion string) error
	// AbortReplace gives it up: it broke off, or its state does not count. What the sink had before
	// stays.
	AbortReplace() error

	// Put adds an object or replaces the one of the same namespace and name. The same one can come
	// again, in a replace of which a page broke off, or after Reflect was run again. The record's
	// Raw is valid during the call.
	Put(Record) error
	// Delete removes the object of a namespace and name, if it is there. The record is its last
	// state. Where another object, of another shard, has taken the name and the server did not tell
	// of the end, it has namespace and name alone. In a replace too changes may come, with initial
	// events.
	Delete(Record) error
	// Commit says that everything up to a resourceVersion has come, but for objects that cannot be
	// read: Status.Skipped counts them, and a sink that is to get them once they can be forgets its
	// version. Commit is called before each wait for the network, at the latest after 128 changes,
	// and without a change when the server says that there was none. It is not called in a replace.
	// The version is "" if that of the last EndReplace was.
	Commit(resourceVersion string) error
}

// Record is one version of an object in the server's encoding. It is a value.
type Record struct {
	Namespace       string // "" where there is none
	Name            string
	UID             string
	ResourceVersion string
	// Kind is what the object is. It is empty until the server has said so, which kube-apiserver
	// does before the first object, or in it.
	Kind     schema.GroupVersionKind
	Encoding Encoding
	// Raw is the object without the fields of Options.Drop; Decode decodes it. Objects in JSON that
	// come from lists of built-in kinds have no apiVersion and kind.
	Raw []byte
}

// recordOf returns a record whose strings are parts of one.
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

// Decode decodes an object's bytes, such as Record.Raw or what Item.AppendRaw gives, for the caller
// alone, who may modify it. The bytes show their encoding themselves. The error says what cannot be
// decoded; it is ErrNotFound if there are none.
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
