package clientgo

import (
	"cmp"
	"net/http"
	"reflect"
	"strings"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/private"
)

// withTransport returns a copy of a client whose requests pass this package's transport, as after
// Wrap. So the informers of a factory capture responses without Wrap. The copy shares the client's
// connections, credentials and rate limiter. The client itself does not change, because other
// goroutines may use it.
//
// withTransport copies clientsets of client-gen, and client-go's dynamic and metadata clients. It
// returns other clients unchanged, for example fake clientsets and the program's own types around a
// client; for such a type, unless it is a fake, it logs once that the program must call Wrap. It
// copies nothing if the factory's informers do not capture responses.
func withTransport[C any](s *settings, client C) C {
	v := reflect.ValueOf(client)
	if !layoutKnown() || s.informer.NoCapture || s.informer.Off || offInEnvironment() || !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return client
	}
	if isClient(v.Type(), 2) {
		v = copyClient(v, &s.informer.clientCopied)
	}
	if s.informer.clientCopied {
		return v.Interface().(C)
	}
	if !wrapped.Load() && !strings.HasPrefix(v.Type().String(), "*fake.") {
		logOnce("Warning: a factory cannot copy its client, so its informers use decoded objects; pass the client's config to clientgo.Wrap", "client", v.Type().String())
	}
	return client
}

// isClient reports whether t is the type of a client for REST, or a pointer to a struct that has
// only fields of such types, after up to depth pointers. Such structs do not change after their
// construction. A clientset needs two pointers: its fields are the clients of API groups. Other
// structs around a client have one, because a program's own type may change the client's results.
func isClient(t reflect.Type, depth int) bool {
	switch t {
	case reflect.TypeFor[rest.Interface](), reflect.TypeFor[*rest.RESTClient](), reflect.TypeFor[*discovery.DiscoveryClient]():
		return true
	}
	if depth == 0 || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || t.Elem().NumField() == 0 {
		return false
	}
	if f, ok := t.Elem().FieldByName("DiscoveryClient"); !ok || f.Type != reflect.TypeFor[*discovery.DiscoveryClient]() {
		depth = 1
	}
	for i := range t.Elem().NumField() {
		if !isClient(t.Elem().Field(i).Type, depth-1) {
			return false
		}
	}
	return true
}

// copyClient returns a copy of v, for whose type isClient returns true. It does not copy a
// DiscoveryClient, which sends no LIST of an informer, and a rest.Interface of another package. It
// sets captures if requests of the copy pass this package's transport.
func copyClient(v reflect.Value, captures *bool) reflect.Value {
	switch c := v.Interface().(type) {
	case *discovery.DiscoveryClient:
		return v
	case *rest.RESTClient:
		*captures = *captures || c != nil
		return reflect.ValueOf(copyRESTClient(c))
	case rest.Interface:
		return v
	}
	ours := reflect.New(v.Type().Elem())
	for i := range ours.Elem().NumField() {
		name := ours.Elem().Type().Field(i).Name
		from, _ := private.Field(v.Elem(), name)
		to, _ := private.Field(ours.Elem(), name)
		if !from.IsNil() {
			to.Set(copyClient(from, captures))
		}
	}
	return ours
}

// copyRESTClient returns a copy of a client, with this package's transport. It returns the client
// itself if it has the transport, because its config was passed to Wrap.
func copyRESTClient(theirs *rest.RESTClient) *rest.RESTClient {
	if theirs == nil {
		return nil
	}
	client := *cmp.Or(theirs.Client, http.DefaultClient)
	if client.Transport == nil {
		client.Transport = http.DefaultTransport
	}
	for rt := range roundTrippers(client.Transport) {
		if _, ok := rt.(*transport); ok {
			return theirs
		}
	}
	ours := new(rest.RESTClient)
	copyFields(reflect.ValueOf(ours).Elem(), reflect.ValueOf(theirs).Elem())
	client.Transport = newTransport(client.Transport)
	ours.Client = &client
	return ours
}

// copyFields copies a struct, except what it changes during its use, such as atomic values. They
// record what a client has learned about its server; the copy learns it again.
func copyFields(to, from reflect.Value) {
	for i := range from.NumField() {
		f, _ := private.Field(from, from.Type().Field(i).Name)
		t, _ := private.Field(to, from.Type().Field(i).Name)
		switch {
		case strings.HasPrefix(f.Type().PkgPath(), "sync"):
		case f.Kind() == reflect.Struct:
			copyFields(t, f)
		default:
			t.Set(f)
		}
	}
}
