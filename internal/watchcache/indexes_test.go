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

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// filled returns a source of n things in ten namespaces, each of which has one of n/10 colors.
func filled(t *testing.T, n int) *source {
	t.Helper()
	s := newSource(t, 0, nil)
	for i := range n {
		s.put(fmt.Sprint("ns", i%10), fmt.Sprintf("t%05d", i), fmt.Sprint("c", i/10))
	}
	return s
}

// index returns the statistics of one index.
func (s *source) index(name string) (out IndexStats, ok bool) {
	for _, x := range s.cache.Stats().Indexes {
		if x.Name == name {
			return x, true
		}
	}
	return out, false
}

// TestIndexOnDemand: a requirement that keeps coming gets an index, which gives the same answers
// and looks at nothing else.
func TestIndexOnDemand(t *testing.T) {
	for name, query := range map[string]string{"l:color": "labelSelector=color%3Dc7", "f:spec.color": "fieldSelector=spec.color%3Dc7"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := filled(t, minToIndex)
				defer s.close()
				want := s.list("", query)
				if len(want.Items) != 10 {
					t.Fatalf("%d items", len(want.Items))
				}
				for range buildAfter {
					if _, ok := s.index(name); ok {
						t.Fatal("too early")
					}
					s.list("", query)
					synctest.Wait()
				}
				built, ok := s.index(name)
				if !ok || built.Lists != 0 || built.Bytes == 0 {
					t.Fatalf("%+v", s.cache.Stats())
				}
				if got := s.list("", query); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %v, want %v", got, want)
				}
				if got := s.list("ns3", query); len(got.Items) != 1 {
					t.Errorf("of a namespace: %v", got)
				}
				stop := s.watch(query, newRecorder())
				synctest.Wait()
				stop()
				used, _ := s.index(name)
				if used.Lists != 2 || used.States != 1 || used.Fetched != 21 || used.Returned != 21 {
					t.Errorf("%+v", used)
				}
				if st := s.cache.Stats(); st.IndexesBuilt != 1 || st.Indexes[0].Lists != buildAfter+1 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// TestNoIndexFor: what does not keep coming, what an index cannot answer, and what is cheap as it
// is.
func TestNoIndexFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filled(t, minToIndex)
		defer s.close()
		for i := range 2 * buildAfter {
			s.list("", "labelSelector=color!%3Dc7")
			s.list("", "labelSelector=color")
			s.list("", "fieldSelector=spec.color!%3Dc7")
			s.list("", "fieldSelector=spec.color%3D")
			s.list("", "fieldSelector=metadata.name%3Dt00001")
			s.list("ns1", "fieldSelector=metadata.name%3Dt00001,spec.color%3Dc0")
			s.list("", fmt.Sprintf("labelSelector=l%d%%3Dx", i))
			s.list("", "labelSelector=seldom%3Dx")
			time.Sleep(2 * halfLife)
			synctest.Wait()
		}
		if st := s.cache.Stats(); st.IndexesBuilt != 0 || len(s.cache.indexes.wanted) > maxWanted {
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

// walked tells the indexes of a LIST that looked at so many objects for nothing, as if it had been
// made.
func (s *source) walked(labelSelector string, vain int) {
	s.t.Helper()
	l, err := labels.Parse(labelSelector)
	if err != nil {
		s.t.Fatal(err)
	}
	sel, err := s.cache.newSelector("", "", &params{labels: l})
	if err != nil {
		s.t.Fatal(err)
	}
	p := s.cache.planQuery(s.cache.currentState(), sel)
	if p.index != nil {
		vain = 0
	}
	s.cache.indexes.record(&p, sel, false, vain, 0)
}

// TestFloodOfSelectors: many different labels are no more than maxIndexes indexes and maxWanted
// candidates, and the one that is used all the time stays.
func TestFloodOfSelectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filled(t, minToIndex)
		defer s.close()
		for i := range 5 * maxIndexes {
			for range buildAfter + 1 {
				s.walked(fmt.Sprintf("flood%d=x", i), minToIndex)
				for range 4 {
					s.walked("color=c7", minToIndex)
				}
				synctest.Wait()
			}
			if n := len(s.cache.Stats().Indexes) - 1; n > maxIndexes {
				t.Fatalf("%d indexes", n)
			}
			if i%5 == 0 {
				time.Sleep(halfLife)
			}
		}
		for i := range 10 * maxWanted {
			s.walked(fmt.Sprintf("once%d=x", i), minToIndex)
		}
		synctest.Wait()
		st := s.cache.Stats()
		if _, ok := s.index("l:color"); !ok || st.IndexesDropped == 0 || st.IndexesBuilt < maxIndexes {
			t.Errorf("%+v", st)
		}
		if n := len(s.cache.indexes.wanted); n > maxWanted {
			t.Errorf("%d are wanted", n)
		}
		if st.IndexesBuilt-st.IndexesDropped != uint64(len(st.Indexes)-1) {
			t.Errorf("%+v", st)
		}
	})
}

// TestIndexThatCannotBeMade: an object that cannot be read keeps an index from being made, and
// nothing else from going on.
func TestIndexThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filled(t, minToIndex)
		defer s.close()
		s.rv++
		s.writeRaw(fmt.Appendf(nil, `{"metadata":{"name":"bad","namespace":"zz","uid":"u","resourceVersion":"%d"},"spec":{"color"`, s.rv))
		sel, err := s.cache.newSelector("", "", &params{fields: fieldsOf(t, "spec.color=c7")})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 * buildAfter {
			p := s.cache.planQuery(s.cache.currentState(), sel)
			s.cache.indexes.record(&p, sel, false, minToIndex, 0)
			synctest.Wait()
		}
		if st := s.cache.Stats(); st.IndexesBuilt != 0 || s.cache.indexes.building {
			t.Errorf("%+v", st)
		}
	})
}

// TestIndexErrors: a field that is in two places, or has an index already, cannot be indexed, and
// New says so.
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

// TestIndexesAgainstWalk compares what is answered from indexes with what is answered without, for
// selectors and pages of every kind.
func TestIndexesAgainstWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	plain := newSource(t, 0, nil)
	defer plain.close()
	indexed := newSource(t, 0, nil)
	defer indexed.close()
	indexed.indexColors()
	names := map[string]bool{}
	for range 2000 {
		ns, name, color := fmt.Sprint("ns", rnd.IntN(4)), fmt.Sprint("t", rnd.IntN(60)), fmt.Sprint("c", rnd.IntN(6))
		remove := names[ns+name] && rnd.IntN(4) == 0
		for _, s := range []*source{plain, indexed} {
			if remove {
				s.remove(ns, name)
			} else {
				s.put(ns, name, color)
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

// pages lists in pages.
func (s *source) pages(namespace, query string, limit int) (names []string) {
	s.t.Helper()
	next := ""
	for {
		l := s.list(namespace, fmt.Sprintf("%s&limit=%d&continue=%s", query, limit, next))
		names = append(names, l.names()...)
		if next = l.Metadata.Continue; next == "" {
			return names
		}
	}
}
