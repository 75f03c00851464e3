package watchcache

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// filled returns a cache of n things in ten namespaces. There are n/10 colors, with ten things
// each.
func filled(t *testing.T, n int) *testCache {
	t.Helper()
	tc := newTestCache(t, 0, nil)
	for i := range n {
		tc.put(fmt.Sprint("ns", i%10), fmt.Sprintf("t%05d", i), fmt.Sprint("c", i/10))
	}
	return tc
}

// index returns the statistics of the index with this name.
func (tc *testCache) index(name string) (out IndexStats, ok bool) {
	for _, x := range tc.cache.Stats().Indexes {
		if x.Name == name {
			return x, true
		}
	}
	return out, false
}

// TestIndexOnDemand checks that the cache builds an index for a requirement that clients repeat.
// With the index, a query must return the same objects, and visit only objects that match.
func TestIndexOnDemand(t *testing.T) {
	for name, query := range map[string]string{"l:color": "labelSelector=color%3Dc7", "f:spec.color": "fieldSelector=spec.color%3Dc7"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := filled(t, minToIndex)
				defer tc.close()
				want := tc.list("", query)
				if len(want.Items) != 10 {
					t.Fatalf("%d items", len(want.Items))
				}
				for range buildAfter {
					if _, ok := tc.index(name); ok {
						t.Fatal("too early")
					}
					tc.list("", query)
					synctest.Wait()
				}
				built, ok := tc.index(name)
				if !ok || built.Lists != 0 || built.Bytes == 0 {
					t.Fatalf("%+v", tc.cache.Stats())
				}
				if got := tc.list("", query); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %v, want %v", got, want)
				}
				if got := tc.list("ns3", query); len(got.Items) != 1 {
					t.Errorf("of a namespace: %v", got)
				}
				stop := tc.watch(query, newRecorder())
				synctest.Wait()
				stop()
				used, _ := tc.index(name)
				if used.Lists != 2 || used.States != 1 || used.Fetched != 21 || used.Returned != 21 {
					t.Errorf("%+v", used)
				}
				if st := tc.cache.Stats(); st.IndexesBuilt != 1 || st.Indexes[0].Lists != buildAfter+1 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// TestNoIndexFor checks that the cache builds no index for a selector that is rare, that an index
// cannot answer, or that is already cheap.
func TestNoIndexFor(t *testing.T) {
	testenv.SkipUnderRace(t)
	synctest.Test(t, func(t *testing.T) {
		tc := filled(t, minToIndex)
		defer tc.close()
		for i := range 2 * buildAfter {
			tc.list("", "labelSelector=color!%3Dc7")
			tc.list("", "labelSelector=color")
			tc.list("", "fieldSelector=spec.color!%3Dc7")
			tc.list("", "fieldSelector=spec.color%3D")
			tc.list("", "fieldSelector=metadata.name%3Dt00001")
			tc.list("ns1", "fieldSelector=metadata.name%3Dt00001,spec.color%3Dc0")
			tc.list("", fmt.Sprintf("labelSelector=l%d%%3Dx", i))
			tc.list("", "labelSelector=seldom%3Dx")
			time.Sleep(2 * idleAfter)
			synctest.Wait()
		}
		if st := tc.cache.Stats(); st.IndexesBuilt != 0 || len(tc.cache.indexes.wanted) > maxWanted {
			t.Errorf("%+v", st)
		}
		small := filled(t, minToIndex/2)
		defer small.close()
		for range 2 * buildAfter {
			small.list("", "labelSelector=color%3Dc7")
		}
		synctest.Wait()
		if st := small.cache.Stats(); st.IndexesBuilt != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// walked records a LIST that has visited objects that do not match, without sending a LIST. vain is
// the number of these objects.
func (tc *testCache) walked(labelSelector string, vain int) {
	tc.t.Helper()
	l, err := labels.Parse(labelSelector)
	check.NoError(tc.t, err)
	sel, err := tc.cache.newSelector("", "", &request.Options{Labels: l})
	check.NoError(tc.t, err)
	p := tc.cache.planQuery(tc.cache.currentState(), sel)
	if p.index != nil {
		vain = 0
	}
	tc.cache.indexes.record(&p, sel, false, vain, 0)
}

// TestFloodOfSelectors checks that many different labels cause at most maxIndexes indexes and
// maxWanted candidates, and that an index in constant use is not dropped.
func TestFloodOfSelectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := filled(t, minToIndex)
		defer tc.close()
		for i := range 5 * maxIndexes {
			for range buildAfter + 1 {
				tc.walked(fmt.Sprintf("flood%d=x", i), minToIndex)
				for range 4 {
					tc.walked("color=c7", minToIndex)
				}
				synctest.Wait()
			}
			if n := len(tc.cache.Stats().Indexes) - 1; n > maxIndexes {
				t.Fatalf("%d indexes", n)
			}
			if i%5 == 0 {
				time.Sleep(idleAfter)
			}
		}
		for i := range 10 * maxWanted {
			tc.walked(fmt.Sprintf("once%d=x", i), minToIndex)
		}
		synctest.Wait()
		st := tc.cache.Stats()
		if _, ok := tc.index("l:color"); !ok || st.IndexesDropped == 0 || st.IndexesBuilt < maxIndexes {
			t.Errorf("%+v", st)
		}
		if n := len(tc.cache.indexes.wanted); n > maxWanted {
			t.Errorf("%d are wanted", n)
		}
		if st.IndexesBuilt-st.IndexesDropped != uint64(len(st.Indexes)-1) {
			t.Errorf("%+v", st)
		}
	})
}

// TestIndexThatCannotBeMade checks that the cache builds no index if it cannot read one of the
// objects.
func TestIndexThatCannotBeMade(t *testing.T) {
	testenv.SkipUnderRace(t)
	synctest.Test(t, func(t *testing.T) {
		tc := filled(t, minToIndex)
		defer tc.close()
		tc.rv++
		tc.writeRaw(fmt.Appendf(nil, `{"metadata":{"name":"bad","namespace":"zz","uid":"u","resourceVersion":"%d"},"spec":{"color"`, tc.rv))
		sel, err := tc.cache.newSelector("", "", &request.Options{Fields: fieldsOf(t, "spec.color=c7")})
		check.NoError(t, err)
		for range 3 * buildAfter {
			p := tc.cache.planQuery(tc.cache.currentState(), sel)
			tc.cache.indexes.record(&p, sel, false, minToIndex, 0)
			synctest.Wait()
		}
		if st := tc.cache.Stats(); st.IndexesBuilt != 0 || tc.cache.indexes.building {
			t.Errorf("%+v", st)
		}
	})
}

// TestIndexErrors checks that New returns an error for an indexed field with two paths, and for a
// field that is indexed twice.
func TestIndexErrors(t *testing.T) {
	st := store.New(store.Config{})
	defer st.Close()
	one := Field{Label: "spec.color", Paths: []string{"spec.color"}, Indexed: true}
	for _, fields := range [][]Field{
		{{Label: "spec.size", Paths: []string{"spec.width", "spec.height"}, Indexed: true}},
		{one, one},
	} {
		r := things
		r.Fields = fields
		if _, err := New(Config{Resource: r, Store: st, Encoding: wire.JSON}); err == nil || !strings.Contains(err.Error(), "index") {
			t.Errorf("%v: %v", fields, err)
		}
	}
}

// TestIndexesAgainstWalk compares the results from indexes with those from walks over the table,
// for all kinds of selectors and pages.
func TestIndexesAgainstWalk(t *testing.T) {
	testenv.SkipUnderRace(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	plain := newTestCache(t, 0, nil)
	defer plain.close()
	indexed := newTestCache(t, 0, nil)
	defer indexed.close()
	indexed.indexColors()
	names := map[string]bool{}
	for range 2000 {
		ns, name, color := fmt.Sprint("ns", rnd.IntN(4)), fmt.Sprint("t", rnd.IntN(60)), fmt.Sprint("c", rnd.IntN(6))
		remove := names[ns+name] && rnd.IntN(4) == 0
		for _, tc := range []*testCache{plain, indexed} {
			if remove {
				tc.remove(ns, name)
			} else {
				tc.put(ns, name, color)
			}
		}
		names[ns+name] = !remove
	}
	for _, ns := range []string{"", "ns1", "none"} {
		for _, q := range []string{
			"labelSelector=color%3Dc1", "labelSelector=color%3Dnone", "labelSelector=color+in+(c1)", "labelSelector=color+in+(c5,c0,c3)",
			"labelSelector=color+in+(c5,c0),color!%3Dc5", "fieldSelector=spec.color%3Dc2", "labelSelector=color%3Dc1&fieldSelector=spec.color%3Dc1",
			"labelSelector=color%3Dc1&fieldSelector=spec.color%3Dc2", "fieldSelector=metadata.namespace%3Dns2,spec.color%3Dc1",
			"labelSelector=color%3Dc1&fieldSelector=metadata.name%3Dt5", "labelSelector=color%3Dc1,color%3Dc2",
		} {
			for _, limit := range []int{0, 1, 7} {
				got, want := indexed.pages(ns, q, limit), plain.pages(ns, q, limit)
				if !slices.Equal(got, want) {
					t.Errorf("%s %s limit %d:\ngot  %v\nwant %v", ns, q, limit, got, want)
				}
			}
		}
	}
	lists := map[string]uint64{}
	for _, x := range indexed.cache.Stats().Indexes {
		lists[x.Name] = x.Lists
	}
	if lists["l:color"] == 0 || lists["f:spec.color"] == 0 {
		t.Errorf("not used: %v", slices.Collect(maps.Keys(lists)))
	}
}

// pages lists all objects page by page.
func (tc *testCache) pages(namespace, query string, limit int) (names []string) {
	tc.t.Helper()
	next := ""
	for {
		l := tc.list(namespace, fmt.Sprintf("%s&limit=%d&continue=%s", query, limit, next))
		names = append(names, l.names()...)
		if next = l.Metadata.Continue; next == "" {
			return names
		}
	}
}
