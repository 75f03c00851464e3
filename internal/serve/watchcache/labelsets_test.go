package watchcache

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// labelled writes an object with these labels.
func (tc *testCache) labelled(namespace, name string, labels map[string]string) {
	tc.t.Helper()
	text, err := json.Marshal(labels)
	check.NoError(tc.t, err)
	tc.rv++
	tc.writeRaw(fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d","labels":%s},"spec":{"color":"red"}}`,
		name, namespace, namespace+name, tc.rv, text))
}

// TestLabelSets compares the results with and without label sets, for every kind of requirement,
// before and after the sets change.
func TestLabelSets(t *testing.T) {
	testenv.SkipUnderRace(t)
	rnd := rand.New(rand.NewPCG(3, 1))
	plain := newTestCache(t, 0, nil)
	defer plain.close()
	sets := newTestCache(t, 0, func(cfg *Config) { cfg.LabelSets = true })
	defer sets.close()
	write := func(tiers int) {
		for range 400 {
			labels := map[string]string{}
			for key, values := range map[string]int{"color": 2, "tier": tiers, "n": 2} {
				if v := rnd.IntN(values + 1); v > 0 {
					labels[key] = fmt.Sprint(v)
				}
			}
			ns, name := fmt.Sprint("ns", rnd.IntN(4)), fmt.Sprint("t", rnd.IntN(40))
			plain.labelled(ns, name, labels)
			sets.labelled(ns, name, labels)
		}
	}
	compare := func() {
		t.Helper()
		for _, selector := range []string{
			"color=1", "color=9", "color!=1", "color in (1,3)", "color notin (1,3)", "!color", "n>1", "n<3,color", "color=1,tier=2",
			"color=1,color=2", "!color,!tier,!n", "tier=3", "!nothing",
		} {
			for _, ns := range []string{"", "ns1"} {
				for _, fields := range []string{"", "&fieldSelector=spec.color%3Dred", "&fieldSelector=metadata.name%3Dt7"} {
					q := "labelSelector=" + url.QueryEscape(selector) + fields
					for _, limit := range []int{0, 20} {
						if got, want := sets.pages(ns, q, limit), plain.pages(ns, q, limit); !slices.Equal(got, want) {
							t.Fatalf("%s %s limit %d:\ngot  %v\nwant %v", ns, q, limit, got, want)
						}
					}
				}
			}
		}
	}
	write(2)
	compare()
	write(4)
	compare()
	if used, ok := sets.index(labelSetIndex); !ok || used.Lists == 0 || used.Returned == 0 {
		t.Errorf("not used: %+v", used)
	}
}

// TestUniqueLabels checks that a query does not use the sets if each object has different labels.
func TestUniqueLabels(t *testing.T) {
	tc := newTestCache(t, 0, func(cfg *Config) { cfg.LabelSets = true })
	defer tc.close()
	for i := range 2 * minToUseSets {
		tc.labelled("ns", fmt.Sprint("t", i), map[string]string{"number": fmt.Sprint(i)})
	}
	if l := tc.list("", "labelSelector=number%3D7"); len(l.Items) != 1 {
		t.Errorf("%v", l)
	}
	if used, _ := tc.index(labelSetIndex); used.Lists != 0 {
		t.Errorf("used: %+v", used)
	}
}

// TestFewSetsLookedAt checks that a query with a new selector visits only objects that match.
func TestFewSetsLookedAt(t *testing.T) {
	testenv.SkipUnderRace(t)
	tc := newTestCache(t, 0, func(cfg *Config) { cfg.LabelSets = true })
	defer tc.close()
	for i := range minToIndex {
		tc.labelled("ns", fmt.Sprint("t", i), map[string]string{"app": fmt.Sprint(i / 20), "fixed": "yes"})
	}
	if l := tc.list("", "labelSelector=app%3D7,fixed%21%3Dno"); len(l.Items) != 20 {
		t.Errorf("%d items", len(l.Items))
	}
	if used, _ := tc.index(labelSetIndex); used.Lists != 1 || used.Fetched != 20 || used.Returned != 20 {
		t.Errorf("%+v", used)
	}
	for i := range buildAfter * minToIndex / 50 { // the cache needs no index of the label
		tc.list("", fmt.Sprintf("labelSelector=app%%3D%d", i%50))
	}
	if st := tc.cache.Stats(); st.IndexesBuilt != 0 || len(tc.cache.indexes.wanted) != 0 {
		t.Errorf("%+v, wanted %v", st, tc.cache.indexes.wanted)
	}
}
