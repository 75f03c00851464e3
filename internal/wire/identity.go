package wire

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Identity is what names one version of an object.
type Identity struct{ Namespace, Name, UID, ResourceVersion string }

// IdentityOf returns the identity of a Go value that a program made. It calls no other method of
// metav1.Object, because a type may implement only a part of it and panic in the rest. The UID is
// "" if GetUID panics. The error says why the value has no metadata: it is nil, or a nil pointer,
// or no API object, or one of the other methods panics.
func IdentityOf(value any) (id Identity, err error) {
	err = readObject(value, func(o metav1.Object) {
		id = Identity{o.GetNamespace(), o.GetName(), uidOf(o), o.GetResourceVersion()}
	})
	return id, err
}

// uidOf returns the uid of an object, or "" if GetUID panics. client-go does not call it.
func uidOf(o metav1.Object) (uid string) {
	defer func() { _ = recover() }()
	return string(o.GetUID())
}

// ReadMetaOf reads the identity of a Go value into m and overwrites m. Nothing else of its metadata
// is read; see IdentityOf, which also describes the error.
func ReadMetaOf(value any, m *Meta) error {
	id, err := IdentityOf(value)
	if err != nil {
		return err
	}
	*m = Meta{
		enc: JSON, text: m.text[:0], pair: m.pair[:0], set: m.set[:0], Namespace: []byte(id.Namespace),
		Name: []byte(id.Name), UID: []byte(id.UID), ResourceVersion: []byte(id.ResourceVersion),
	}
	return nil
}

// ReadBookmarkOf does what ReadMetaOf does for the object of a BOOKMARK event. It also reads the
// annotations that InitialEventsEnd and Coalesced look for.
func ReadBookmarkOf(value any, m *Meta) error {
	if err := ReadMetaOf(value, m); err != nil {
		return err
	}
	return readObject(value, func(o metav1.Object) { m.annotations = bookmarkAnnotations(o.GetAnnotations()) })
}

// readObject calls read with the metadata of a value. It returns an error if the value has none, or
// if read panics.
func readObject(value any, read func(metav1.Object)) (err error) {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("a nil %T", value)
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("read the metadata of %T: panic: %v", value, cause)
		}
	}()
	object, err := meta.Accessor(value)
	if err != nil {
		return fmt.Errorf("%T has no metadata: %w", value, err)
	}
	read(object)
	return nil
}
