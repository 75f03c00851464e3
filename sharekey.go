package weir

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/private"
)

// shareKey identifies a shared informer. It contains the options that must be equal for two users
// to share one informer.
type shareKey struct {
	goType  reflect.Type // types of different packages may have the same name
	objects string       // which objects are stored
	tuning  string       // how objects are decoded, stored and requested
	server  *ServerGroup
	random  private.Function // ListWatch.Backoff.Random
}

// shareKeyOf returns the key of a user's options. It returns ErrInvalidOptions if the options are
// invalid.
func shareKeyOf[T Object](f *Factory, opts Options) (shareKey, error) {
	typ, err := objectTypeOf[T](opts)
	if err != nil {
		return shareKey{}, err
	}
	scopes, err := scopesOf(opts)
	if err != nil {
		return shareKey{}, err
	}
	key := shareKey{goType: reflect.TypeFor[T](), server: opts.Server}
	if key.server == nil {
		key.server = &f.server
	}
	of := typ.resource.String()
	if typ.resource.Empty() {
		of = typ.gvk.String()
	}
	chosen := make([]string, len(scopes))
	for i, s := range scopes {
		chosen[i] = fmt.Sprintf("%q %q", s.namespace, s.selector)
	}
	slices.Sort(chosen)
	key.objects = fmt.Sprintf("%q %q %q %s", of, slices.Compact(chosen), slices.Sorted(slices.Values(opts.DropFields)), opts.Shard.selector())

	detects := opts.DetectMutation || checks.DetectMutations()
	shares := opts.ShareDecoded && !opts.PrivateCopies && !detects
	listWatch := opts.ListWatch
	key.random, listWatch.Backoff.Random = private.FunctionOf(listWatch.Backoff.Random), nil
	key.tuning = fmt.Sprintf("%t %t %d %d %d %d %#v", shares, detects, opts.DecodedBudget, opts.DecodedIdle, opts.LogBytes, opts.StopTimeout, listWatch)
	return key, nil
}
