package servers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
)

// fakeWriter is a writer that returns ascending resourceVersions.
type fakeWriter struct {
	mu      sync.Mutex
	rv      uint64
	pods    []int
	changes []int64
	fails   error
}

func (f *fakeWriter) write(_ context.Context, pod int, change int64) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rv++
	f.pods, f.changes = append(f.pods, pod), append(f.changes, change)
	return f.rv, f.fails
}

func TestUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods, rate = 10, 20
		w := &fakeWriter{}
		u := startUpdates(t.Context(), w, pods, rate)
		time.Sleep(time.Second - time.Millisecond)
		written, err := u.stop()
		check.NoError(t, err)
		if len(w.pods) != rate {
			t.Fatalf("%d writes in a second, want %d", len(w.pods), rate)
		}
		want := make([]uint64, pods)
		for i, pod := range w.pods {
			want[pod] = uint64(i + 1)
		}
		if diff := cmp.Diff(want, written); diff != "" || slices.Contains(want, 0) {
			t.Errorf("not all pods were written in turn, or not noted\n%s", diff)
		}
		if got := len(slices.Compact(slices.Sorted(slices.Values(w.changes)))); got != rate {
			t.Errorf("%d different changes of %d: the same again would be none", got, rate)
		}
		time.Sleep(time.Hour)
		if got := u.rate(); got < 20 || got > 20.1 {
			t.Errorf("%v a second", got)
		}
		if again, err := u.stop(); err != nil || !slices.Equal(again, written) {
			t.Errorf("stopped again: %v, %v", again, err)
		}
	})
}

func TestUpdatesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeWriter{fails: io.ErrClosedPipe}
		u := startUpdates(t.Context(), w, 3, 100)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(w.pods); n == 0 || n > maxWriters {
			t.Errorf("%d writes", n)
		}
		if _, err := u.stop(); !errors.Is(err, errUpdates) || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
	})
}

func TestUpdatesEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		u := startUpdates(ctx, &fakeWriter{}, 3, 100)
		cancel()
		u.writing.Wait()
		if _, err := u.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestEtcdWriter(t *testing.T) {
	var asked struct{ Key, Value string }
	answer := `{"header":{"cluster_id":"1","revision":"4711"}}`
	code := http.StatusOK
	etcd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v3/kv/put" || json.NewDecoder(r.Body).Decode(&asked) != nil {
			code = http.StatusNotFound
		}
		w.WriteHeader(code)
		io.WriteString(w, answer)
	}))
	defer etcd.Close()
	pods := &serverPods{keys: []string{"shop/a"}, raw: [][]byte{{}}}
	w := &etcdWriter{url: etcd.URL, http: etcd.Client(), pods: pods}
	rv, err := w.write(t.Context(), 0, 5)
	if err != nil || rv != 4711 {
		t.Errorf("%v, %v", rv, err)
	}
	if key, _ := base64.StdEncoding.DecodeString(asked.Key); string(key) != "/registry/pods/shop/a" {
		t.Errorf("wrote %q", key)
	}
	if value, _ := base64.StdEncoding.DecodeString(asked.Value); string(value) != string(stored(nil, 5)) {
		t.Errorf("wrote %q", value)
	}
	for _, answer = range []string{"", "{}", `{"header":{"revision":"many"}}`} {
		if rv, err := w.write(t.Context(), 0, 5); err == nil {
			t.Errorf("%q: %d", answer, rv)
		}
	}
	code = http.StatusInternalServerError
	if _, err := w.write(t.Context(), 0, 5); err == nil {
		t.Error("no error of an answer that is one")
	}
}
