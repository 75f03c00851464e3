package watchcache

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/shard"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// shardQuery returns the query parameter that selects a shard.
func shardQuery(s shard.Shard) string {
	return "shardSelector=" + url.QueryEscape(s.Selector().String())
}

// oracle returns a function that reports whether a uid is in a shard according to KEP-5866: whether
// its FNV-1a hash is in the selector's range.
func oracle(t *testing.T, s shard.Shard) func(uid string) bool {
	t.Helper()
	sel := s.Selector().String()
	var first, end string
	if _, err := fmt.Sscanf(strings.NewReplacer("'", " ", ",", " ").Replace(sel), "shardRange(object.metadata.uid %s %s )", &first, &end); err != nil {
		t.Fatal(err, sel)
	}
	return func(uid string) bool {
		h := fnv.New64a()
		h.Write([]byte(uid))
		hash := fmt.Sprintf("0x%016x", h.Sum64())
		return first <= hash && (hash < end || len(end) > len(hash))
	}
}

// TestShardedList checks that a LIST of a shard returns exactly the objects in the shard that match
// the rest of the query. The metadata of the list must name the shard.
func TestShardedList(t *testing.T) {
	testenv.SkipUnderRace(t)
	tc := filled(t, 200)
	defer tc.close()
	for _, tt := range []struct{ namespace, query string }{
		{"", ""}, {"", "resourceVersion=0"}, {"ns3", ""}, {"", "labelSelector=color%3Dc7"}, {"", "labelSelector=color"}, {"", "labelSelector=color%21%3Dc7"},
		{"", "fieldSelector=spec.color%3Dc7"}, {"ns1", "fieldSelector=metadata.name%3Dt00001"}, {"", "limit=23"}, {"", "fieldSelector=metadata.namespace%3Dns3&limit=2"}, {"ns3", "labelSelector=color&limit=23"},
	} {
		all := tc.everyPage(t, tt.namespace, tt.query)
		if len(all) == 0 {
			t.Fatalf("%s: nothing", tt.query)
		}
		for count := 2; count < 5; count++ {
			for i := range count {
				sh := shard.Shard{Index: i, Count: count}
				in := oracle(t, sh)
				var want []string
				for _, o := range all {
					if in(o.UID) {
						want = append(want, o.Name)
					}
				}
				var got []string
				for _, o := range tc.everyPage(t, tt.namespace, tt.query+"&"+shardQuery(sh)) {
					got = append(got, o.Name)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s %s of shard %d of %d:\n%v, not\n%v", tt.namespace, tt.query, i, count, got, want)
				}
			}
		}
	}
}

type listed struct{ Namespace, Name, UID string }

// everyPage reads all pages of a LIST, and checks their metadata.
func (tc *testCache) everyPage(t *testing.T, namespace, query string) (out []listed) {
	t.Helper()
	sharded := strings.Contains(query, "shardSelector")
	for token := ""; ; {
		w := httptest.NewRecorder()
		serveList(tc.cache, w, httptest.NewRequest(http.MethodGet, "/?"+query+"&continue="+token, nil), namespace, "")
		var l struct {
			Metadata struct {
				Continue           string
				RemainingItemCount *int64
				ShardInfo          *metav1.ShardInfo
			}
			Items []struct{ Metadata listed }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != 200 {
			t.Fatalf("%d %v: %s", w.Code, err, w.Body)
		}
		for _, item := range l.Items {
			out = append(out, item.Metadata)
		}
		selects := sharded || strings.Contains(query, "Selector=")
		if (l.Metadata.ShardInfo != nil) != sharded || (l.Metadata.RemainingItemCount != nil) != (l.Metadata.Continue != "" && !selects) {
			t.Errorf("%s: metadata is %.300s", query, w.Body)
		}
		if token = l.Metadata.Continue; token == "" {
			return out
		}
	}
}

// TestShardOfNamespace checks that all objects of a namespace are in the same shard, if shards are
// chosen by namespace.
func TestShardOfNamespace(t *testing.T) {
	tc := filled(t, 100)
	defer tc.close()
	where := map[string]int{}
	n := 0
	for i := range 3 {
		for _, o := range tc.everyPage(t, "", strings.Replace(shardQuery(shard.Shard{Index: i, Count: 3}), "uid", "namespace", 1)) {
			if was, ok := where[o.Namespace]; ok && was != i {
				t.Errorf("%s is in shard %d and %d", o.Namespace, was, i)
			}
			where[o.Namespace] = i
			n++
		}
	}
	if n != 100 || len(slices.Collect(maps.Keys(where))) != 10 {
		t.Errorf("%d objects in %v", n, where)
	}
}

// TestShardSelectorRefused checks that an empty shard selector selects all, and that an invalid one
// returns 400.
func TestShardSelectorRefused(t *testing.T) {
	tc := filled(t, 20)
	defer tc.close()
	check.Equal(t, len(tc.list("", "shardSelector=").Items), 20, "items by an empty selector")
	for _, query := range []string{"shardSelector=x", "shardSelector=%20", "watch=1&shardSelector=shardRange(object.metadata.uid,'0x0','0x8')"} {
		if l := tc.list("", query); l.Code != 400 || l.Reason != "BadRequest" || !strings.Contains(l.Message, "shard selector") {
			t.Errorf("%s: %+v", query, l)
		}
	}
}

// TestShardWatchWoken checks that a change outside the shard does not wake a WATCH of the shard. If
// an object is deleted and created again, it has another uid, so the new object may be in another
// shard.
func TestShardWatchWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 0, nil)
		defer tc.close()
		sh := shard.Shard{Index: 1, Count: 3}
		in := oracle(t, sh)
		var inside, outside []string
		for i := range 40 {
			if name := fmt.Sprint("n", i); in(uidOf(name, 0)) {
				inside = append(inside, name)
			} else {
				outside = append(outside, name)
			}
		}
		leaves := inside[slices.IndexFunc(inside, func(name string) bool { return !in(uidOf(name, 1)) })]
		comes := outside[slices.IndexFunc(outside, func(name string) bool { return in(uidOf(name, 1)) })]
		tc.put("ns", leaves, "red")
		tc.put("ns", comes, "red")
		r := newRecorder()
		defer tc.watch(shardQuery(sh), r)()
		synctest.Wait()
		flushes := r.flushed()
		for range 100 {
			for _, name := range outside {
				tc.put("ns", name, "blue")
			}
			synctest.Wait()
		}
		check.Equal(t, r.flushed()-flushes, 0, "woken times")
		want := []string{"ADDED ns/" + leaves + "@101"}
		event := func(what, name string, rv uint64) { want = append(want, fmt.Sprintf("%s ns/%s@%d", what, name, rv)) }
		event("MODIFIED", leaves, tc.put("ns", leaves, "blue").rv)
		event("DELETED", leaves, tc.remove("ns", leaves))
		tc.put("ns", leaves, "blue")
		tc.remove("ns", comes)
		event("ADDED", comes, tc.put("ns", comes, "blue").rv)
		synctest.Wait()
		if got := r.events(t); !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// TestShardWatchesUnderChurn runs one watch per shard while objects change. Again and again, the
// client of one watch stalls for a while. In the end, each client must have exactly the current
// objects of its shard.
func TestShardWatchesUnderChurn(t *testing.T) {
	for _, logBytes := range []int64{0, 4 << 10} {
		synctest.Test(t, func(t *testing.T) {
			const count = 3
			rnd := rand.New(rand.NewPCG(7, uint64(logBytes)))
			tc := newTestCache(t, logBytes, nil)
			defer tc.close()
			truth := map[string]bool{}
			churn := func(n int) {
				for range n {
					name := fmt.Sprint("n", rnd.IntN(60))
					if key := "ns/" + name; truth[key] && rnd.IntN(3) == 0 {
						tc.remove("ns", name)
						delete(truth, key)
					} else {
						tc.put("ns", name, fmt.Sprint("c", rnd.IntN(5)))
						truth[key] = true
					}
				}
			}
			churn(200)
			var clients [count]*recorder
			for i := range clients {
				clients[i] = newRecorder()
				defer tc.watch(shardQuery(shard.Shard{Index: i, Count: count}), clients[i])()
			}
			synctest.Wait()
			for range 20 {
				stalled := clients[rnd.IntN(count)]
				stalled.block()
				churn(100)
				synctest.Wait()
				stalled.unblock()
				churn(20)
				synctest.Wait()
			}
			union := map[string]bool{}
			for i, c := range clients {
				for key := range stateAfter(t, c.events(t)) {
					name := strings.TrimPrefix(key, "ns/")
					if union[key] || !oracle(t, shard.Shard{Index: i, Count: count})(uidOf(name, tc.lives[name])) {
						t.Errorf("shard %d has %s", i, key)
					}
					union[key] = true
				}
			}
			if !maps.Equal(union, truth) {
				t.Errorf("the shards have %v, there is %v", union, truth)
			}
		})
	}
}

// stateAfter returns the keys that a client has after these events. It checks that an ADDED event
// is only for an object that the client does not have, and that any other event is only for an
// object that the client has.
func stateAfter(t *testing.T, events []string) map[string]bool {
	t.Helper()
	state := map[string]bool{}
	for _, e := range events {
		what, key, _ := strings.Cut(e, " ")
		key, _, _ = strings.Cut(key, "@")
		if state[key] == (what == "ADDED") {
			t.Errorf("%s of %s, there before: %t", what, key, state[key])
		}
		if state[key] = true; what == "DELETED" {
			delete(state, key)
		}
	}
	return state
}
