package checks

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/weirproject/weir/internal/core/codec"
)

const (
	detectEvery = time.Second
	detectFor   = 2 * time.Minute
)

// DetectMutations reports whether the environment variable KUBE_CACHE_MUTATION_DETECTOR enables
// detection, as in client-go.
func DetectMutations() bool {
	on, _ := strconv.ParseBool(os.Getenv("KUBE_CACHE_MUTATION_DETECTOR"))
	return on
}

// MutationDetector detects changes of shared objects, like client-go's detector: it compares each
// value that a caller received with a copy of the value. It keeps each value and its copy for two
// minutes, so its memory depends on the number of values that callers receive in two minutes. It is
// safe for concurrent use.
type MutationDetector struct {
	fail func(key, what string)

	mu   sync.Mutex
	seen map[any]*handedOut // by value, which is a pointer; nil after Run has returned
}

type handedOut struct {
	key   string
	copy  any
	until time.Time
}

// NewMutationDetector returns a detector that calls fail with the key of a changed object and a
// description of the change. If fail is nil, the detector panics.
func NewMutationDetector(fail func(key, what string)) *MutationDetector {
	if fail == nil {
		fail = func(key, what string) { panic(fmt.Sprintf("weir: shared object %s was changed: %s", key, what)) }
	}
	return &MutationDetector{fail: fail, seen: map[any]*handedOut{}}
}

// Add registers a value that will be returned to a caller. It ignores a value that is not a pointer
// or cannot be copied.
func (d *MutationDetector) Add(key string, value any) {
	if reflect.ValueOf(value).Kind() != reflect.Pointer {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.seen[value]; ok || d.seen == nil {
		return
	}
	if duplicate, ok := codec.Copy(value); ok {
		d.seen[value] = &handedOut{key, duplicate, time.Now().Add(detectFor)}
	}
}

// Run calls Compare every second until the context ends. Then it calls Compare a last time, and
// drops all values.
func (d *MutationDetector) Run(ctx context.Context) {
	ticker := time.NewTicker(detectEvery)
	defer ticker.Stop()
	for {
		d.Compare()
		select {
		case <-ctx.Done():
			d.Compare()
			d.mu.Lock()
			d.seen = nil
			d.mu.Unlock()
			return
		case <-ticker.C:
		}
	}
}

// Watching reports whether Run has not returned. It is also true before Run is called.
func (d *MutationDetector) Watching() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen != nil
}

// Compare compares each registered value with its copy, including unexported fields, as client-go
// does.
func (d *MutationDetector) Compare() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for value, was := range d.seen {
		if !reflect.DeepEqual(value, was.copy) {
			d.fail(was.key, diff.Diff(was.copy, value))
		}
		if now.After(was.until) {
			delete(d.seen, value)
		}
	}
}
