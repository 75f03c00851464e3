package watchcache

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestEncodedOnce checks that the cache encodes an event once for several watchers if its
// representation differs from the stored one. For an event in the stored representation, or for a
// single watcher, the encode cache is not used.
func TestEncodedOnce(t *testing.T) {
	const changes, metadata = 20, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for _, tt := range []struct {
		accept       string
		watchers     int
		hits, misses uint64
	}{
		{"application/json", 10, 0, 0},
		{metadata, 1, 0, 0},
		{metadata, 10, 9 * (changes + 1), changes + 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 0, func(c *Config) { c.Resource.Custom = true })
			defer tc.close()
			var clients []*recorder
			for range tt.watchers {
				r := newRecorder()
				clients = append(clients, r)
				defer tc.watchAs(tt.accept, fmt.Sprintf("resourceVersion=%d", tc.rv), r)()
			}
			synctest.Wait()
			for i := range changes {
				tc.put("ns", fmt.Sprint("t", i%3), "red")
			}
			tc.remove("ns", "t0")
			synctest.Wait()
			st := tc.cache.Stats()
			if st.EncodeCacheMisses != tt.misses || st.EncodeCacheHits != tt.hits || st.EncodeCacheBytes > 0 != (tt.misses > 0) {
				t.Errorf("%+v: %+v", tt, st)
			}
			for _, r := range clients {
				check.Equal(t, len(r.events(t)), changes+1, "events")
			}
		})
	}
}

func TestEncodeCacheBound(t *testing.T) {
	var shared encodeCache
	encoded := 0
	get := func(rv uint64) {
		t.Helper()
		got, err := shared.get(encodeKey{rv: rv}, func() ([]byte, error) {
			encoded++
			return make([]byte, 100<<10), nil
		})
		if err != nil || len(got) != 100<<10 {
			t.Fatal(len(got), err)
		}
	}
	for rv := range uint64(100) {
		get(rv)
		get(rv)
	}
	check.Equal(t, encoded, 100, "encoded times")
	if held := shared.size(); held > maxEncodeCache || held < maxEncodeCache/2 || len(shared.entries) != len(shared.order) {
		t.Errorf("%d bytes are held", held)
	}
	get(0)
	check.Equal(t, encoded, 101, "the first is still there")
	if _, err := shared.get(encodeKey{rv: 1000}, func() ([]byte, error) { return make([]byte, 2*maxEncodeCache), nil }); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, shared.size(), 0, "bytes are held beside one that is too large")
}

// TestEncodeCacheBoundsVersions checks that small cached events, such as metadata events, keep only
// a bounded number of large objects alive.
func TestEncodeCacheBoundsVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lc := newLargeCache(t, largeLog)
		defer lc.close()
		var shared encodeCache
		for range 2 * maxEncodeCache / largeBytes * 2 {
			lc.putLarge("ns", "a", "red")
			o, _ := lc.store.Get("ns/a")
			if _, err := shared.get(encodeKey{object: o}, func() ([]byte, error) { return make([]byte, 100), nil }); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(shared.order) * largeBytes; n > 3*maxEncodeCache/2 || n < maxEncodeCache/2 || shared.size() < int64(n)/2 {
			t.Errorf("%d versions of %d bytes are kept, counted as %d", len(shared.order), largeBytes, shared.size())
		}
		if shared.clear(); shared.size() != 0 {
			t.Errorf("%d bytes of nothing", shared.size())
		}
	})
}
