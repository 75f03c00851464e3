package weir_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/shard"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// table is a Sink that stores objects in maps. It reports calls that violate Sink's contract.
type table struct {
	t      *testing.T
	failAt string // the name of the step that fails

	mu     sync.Mutex
	held   map[string]weir.Record
	staged map[string]weir.Record // the objects of an active replace; nil if none is active
	rv     string
	steps  []string // the called methods, except Put and Delete
	failed bool
}

var errTable = errors.New("the table is full")

func newTable(t *testing.T) *table { return &table{t: t, held: map[string]weir.Record{}} }

func (s *table) step(name string, replacing bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed {
		s.t.Errorf("%s after an error", name)
	}
	if (s.staged != nil) != replacing {
		s.t.Errorf("%s, in a replace: %t", name, s.staged != nil)
	}
	s.steps = append(s.steps, name)
	if s.failed = name == s.failAt; s.failed {
		return errTable
	}
	return nil
}

func (s *table) ResourceVersion() (string, error) { return s.rv, s.step("version", false) }

func (s *table) BeginReplace() error {
	err := s.step("begin", false)
	s.staged = map[string]weir.Record{}
	return err
}

func (s *table) EndReplace(rv string) error {
	if err := s.step("end", true); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.staged, s.rv = s.staged, nil, rv
	return nil
}

func (s *table) AbortReplace() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.staged == nil {
		s.t.Error("abort outside a replace")
	}
	s.staged = nil
	s.steps = append(s.steps, "abort")
	return nil
}

// to returns the map that the next Put or Delete changes. The caller holds the lock.
func (s *table) to() map[string]weir.Record {
	if s.staged != nil {
		return s.staged
	}
	if s.rv == "" {
		s.t.Error("a change before the first replace")
	}
	return s.held
}

func (s *table) Put(r weir.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed = s.failAt == "put" && len(s.to()) > 0; s.failed {
		return errTable
	}
	r.Raw = slices.Clone(r.Raw)
	s.to()[r.Namespace+"/"+r.Name] = r
	return nil
}

func (s *table) Delete(r weir.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed = s.failAt == "delete"; s.failed {
		return errTable
	}
	if key := r.Namespace + "/" + r.Name; r.UID != "" && s.to()[key].UID != r.UID {
		s.t.Errorf("the deletion of %s@%s was reported, but %s is stored", key, r.UID, s.to()[key].UID)
	} else {
		delete(s.to(), key)
	}
	return nil
}

func (s *table) Commit(rv string) error {
	if err := s.step("commit", false); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv = rv
	return nil
}

// versions returns the uid and version of each stored object, by key.
func (s *table) versions() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for key, r := range s.held {
		out[key] = r.UID + "@" + r.ResourceVersion
	}
	return out
}

// took returns the steps since the last call of took. It counts consecutive equal steps once.
func (s *table) took() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := strings.Join(slices.Compact(s.steps), " ")
	s.steps = nil
	return steps
}

// reflecting runs Mirror until the test calls stop or ends. stop returns Mirror's error.
func reflecting[T weir.Object](t *testing.T, ctx context.Context, cfg *rest.Config, opts weir.Options, sink weir.Sink) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- weir.Mirror[T](ctx, cfg, opts, sink) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return stop
}

// configMapVersions returns the uid and version of each config map on the server, by key.
func configMapVersions(t *testing.T, ctx context.Context, client corev1client.CoreV1Interface) map[string]string {
	t.Helper()
	list, err := client.ConfigMaps("").List(ctx, metav1.ListOptions{})
	check.NoError(t, err)
	out := map[string]string{}
	for _, m := range list.Items {
		out[m.Namespace+"/"+m.Name] = string(m.UID) + "@" + m.ResourceVersion
	}
	return out
}

// TestMirror checks that Mirror updates a sink after changes, after a list that breaks off, and
// after two restarts: one that resumes from the stored version, and one when the server no longer
// has that version.
func TestMirror(t *testing.T) {
	t.Run("typed", func(t *testing.T) { testMirror[*corev1.ConfigMap](t, weir.Options{}, weir.Protobuf) })
	t.Run("unstructured", func(t *testing.T) {
		testMirror[*unstructured.Unstructured](t, weir.Options{Resource: corev1.SchemeGroupVersion.WithResource("configmaps")}, weir.JSON)
	})
}

func testMirror[T weir.Object](t *testing.T, opts weir.Options, enc weir.Encoding) {
	faults := &apiserver.Faults{}
	server, client, ctx := serve(t, apiserver.Options{Faults: faults})
	var lists atomic.Int32
	cfg := server.Config()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); strings.HasSuffix(r.URL.Path, "/configmaps") && !q.Has("watch") && q.Get("limit") != "1" {
				lists.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	sink := newTable(t)
	follows := func() {
		t.Helper()
		want := configMapVersions(t, ctx, client)
		testenv.Eventually(t, ctx, "the table has what the server has", func() bool { return maps.Equal(sink.versions(), want) })
	}
	for n := range 300 {
		makeConfigMap(ctx, client, fmt.Sprint("n", n%3), fmt.Sprint("m", n))
	}

	cut := int64(20_000)
	faults.Add(apiserver.Rule{Match: apiserver.Match("list", "configmaps"), Cut: &cut, Times: 1})
	stop := reflecting[T](t, ctx, cfg, opts, sink)
	// Without this wait, the fault could cut the test's own LIST instead of Mirror's.
	testenv.Eventually(t, ctx, "there are two LISTs", func() bool { return lists.Load() == 2 })
	follows()
	label(t, ctx, client, "n0", "m0", "changed")
	makeConfigMap(ctx, client, "n1", "new")
	check.NoError(t, client.ConfigMaps("n2").Delete(ctx, "m2", metav1.DeleteOptions{}))
	follows()
	check.NoError(t, stop())
	if steps := sink.took(); steps != "version begin abort begin end commit" || lists.Load() != 2 {
		t.Errorf("%s, after %d lists", steps, lists.Load())
	}
	record := sink.held["n1/new"]
	object, err := weir.Decode[T](record.Raw)
	if err != nil || object.GetName() != "new" || object.GetLabels()["initial"] != "n" || record.Encoding != enc || record.Kind.Kind != "ConfigMap" {
		t.Errorf("%s of %v decodes to %v, %v", record.Encoding, record.Kind, object, err)
	}

	label(t, ctx, client, "n1", "m1", "while Mirror was stopped")
	stop = reflecting[T](t, ctx, cfg, opts, sink)
	follows()
	check.NoError(t, stop())
	if steps := sink.took(); steps != "version commit" || lists.Load() != 2 {
		t.Errorf("%s, after %d lists", steps, lists.Load())
	}

	label(t, ctx, client, "n1", "m4", "long ago")
	server.Compact()
	stop = reflecting[T](t, ctx, cfg, opts, sink)
	follows()
	check.NoError(t, stop())
	if steps := sink.took(); steps != "version begin end" || lists.Load() != 3 {
		t.Errorf("%s, after %d lists", steps, lists.Load())
	}
}

// TestMirrorSinkFails checks that Mirror returns the error of a sink's method, and calls no method
// of the sink after the error except AbortReplace.
func TestMirrorSinkFails(t *testing.T) {
	for at, want := range map[string]string{
		"version": "version", "begin": "version begin abort", "put": "version begin abort", "end": "version begin end abort",
		"delete": "version begin end", "commit": "version begin end commit",
	} {
		t.Run(at, func(t *testing.T) {
			server, client, ctx := serve(t, apiserver.Options{})
			makeConfigMap(ctx, client, "n", "a")
			makeConfigMap(ctx, client, "n", "b")
			sink := newTable(t)
			sink.failAt = at
			ended := make(chan error, 1)
			var synced sync.Once
			go func() {
				ended <- weir.Mirror[*corev1.ConfigMap](ctx, server.Config(), weir.Options{Name: "to a table", OnStatus: func(s weir.Status) {
					if s.Synced {
						synced.Do(func() {
							go func() { _ = client.ConfigMaps("n").Delete(ctx, "a", metav1.DeleteOptions{}) }()
						})
					}
				}}, sink)
			}()
			if err := <-ended; !errors.Is(err, errTable) || !strings.HasPrefix(err.Error(), "to a table: ") {
				t.Errorf("%v", err)
			}
			check.Equal(t, sink.took(), want)
		})
	}
}

// TestMirrorBookmarkFails checks that Mirror returns the error of Commit if Mirror calls Commit
// because of a bookmark, without earlier changes.
func TestMirrorBookmarkFails(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{BookmarkInterval: 100 * time.Millisecond})
	makeConfigMap(ctx, client, "n", "a")
	sink := newTable(t)
	sink.failAt = "commit"
	ended := make(chan error, 1)
	go func() { ended <- weir.Mirror[*corev1.ConfigMap](ctx, server.Config(), weir.Options{}, sink) }()
	testenv.Eventually(t, ctx, "the table has something", func() bool { return len(sink.versions()) > 0 })
	if _, err := client.Secrets("n").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err) // the next bookmark has this secret's version
	}
	if err := <-ended; !errors.Is(err, errTable) || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
}

// TestMirrorNamesake replaces an object by new objects of the same name. If the new object is not
// in Mirror's shard, Mirror must delete the old object from the sink. It must not put the new
// object into the sink.
func TestMirrorNamesake(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	sink := newTable(t)
	half := weir.Shard{Index: 0, Count: 2}
	stop := reflecting[*corev1.ConfigMap](t, ctx, unsharded(server.Config()), weir.Options{Shard: half}, sink)
	for n, mine := 0, 0; mine < 5; n++ {
		name := "same"
		if n > 0 {
			check.NoError(t, client.ConfigMaps("n").Delete(ctx, name, metav1.DeleteOptions{}))
		}
		made := makeConfigMap(ctx, client, "n", name)
		holds := func() bool { return sink.versions()["n/same"] != "" }
		if shard.Shard(half).Selector().Chooses([]byte(made.UID), []byte(made.Namespace)) {
			mine++
			testenv.Eventually(t, ctx, "the table has it", holds)
			continue
		}
		testenv.Eventually(t, ctx, "the table has it no more", func() bool { return !holds() })
	}
	check.NoError(t, stop())
}

// TestMirrorOptions checks that Mirror rejects invalid options, options that a sink cannot support,
// and a nil config or sink.
func TestMirrorOptions(t *testing.T) {
	for name, opts := range map[string]weir.Options{
		"two namespaces": {Namespaces: []string{"a", "b"}},
		"two selectors":  {Selectors: []weir.Selector{{Label: "a"}, {Label: "b"}}},
		"an index":       {Indexes: map[string]weir.Index{"i": weir.ByField("metadata.name")}},
		"what to drop":   {DropFields: []string{"metadata.."}},
		"a shard":        {Shard: weir.Shard{Index: 2, Count: 2}},
	} {
		check.ErrorIs(t, weir.Mirror[*corev1.ConfigMap](t.Context(), &rest.Config{}, opts, newTable(t)), weir.ErrInvalidOptions, "%s", name)
	}
	check.ErrorIs(t, weir.Mirror[*unstructured.Unstructured](t.Context(), &rest.Config{}, weir.Options{}, newTable(t)), weir.ErrInvalidOptions, "without a resource")
	check.ErrorIs(t, weir.Mirror[*corev1.ConfigMap](t.Context(), nil, weir.Options{}, newTable(t)), weir.ErrInvalidOptions, "without a config")
	check.ErrorIs(t, weir.Mirror[*corev1.ConfigMap](t.Context(), &rest.Config{}, weir.Options{}, nil), weir.ErrInvalidOptions, "without a sink")
}

// TestDecode checks that Decode accepts JSON and protobuf. It must reject empty and truncated
// bytes, protobuf of a custom resource, and an interface as the type.
func TestDecode(t *testing.T) {
	text := []byte(`{"metadata":{"name":"a"}}`)
	message, err := (&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).Marshal()
	check.NoError(t, err)
	for _, raw := range [][]byte{text, message} {
		if m, err := weir.Decode[*corev1.ConfigMap](raw); err != nil || m.Name != "a" {
			t.Errorf("%q: %v, %v", raw, m, err)
		}
		if m, err := weir.Decode[*corev1.ConfigMap](raw[:5]); err == nil {
			t.Errorf("%q: %v", raw[:5], m)
		}
	}
	if w, err := weir.Decode[*Widget](text); err != nil || w.Name != "a" {
		t.Errorf("%v, %v", w, err)
	}
	if w, err := weir.Decode[*Widget](message); err == nil {
		t.Errorf("%v", w)
	}
	if m, err := weir.Decode[*corev1.ConfigMap](nil); !errors.Is(err, weir.ErrNotFound) {
		t.Errorf("nothing: %v, %v", m, err)
	}
	if _, err := weir.Decode[weir.Object](text); !errors.Is(err, weir.ErrInvalidOptions) {
		t.Errorf("of an interface: %v", err)
	}
}
