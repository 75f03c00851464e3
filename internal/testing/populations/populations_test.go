package populations

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

func TestUnknownName(t *testing.T) {
	for _, err := range []error{podsim.CheckPopulation("alien"), func() error { _, err := New("alien", 1, 1); return err }()} {
		if err == nil || !strings.Contains(err.Error(), `"alien"`) || !strings.Contains(err.Error(), podsim.PopulationChoices()) {
			t.Errorf("%v: want the name and the choices", err)
		}
	}
	for _, name := range append(podsim.Populations(), "") {
		if err := podsim.CheckPopulation(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSameObjectsForSameSeed(t *testing.T) {
	for _, name := range podsim.Populations() {
		a, b, other := made(t, name, 500, 7), made(t, name, 500, 7), made(t, name, 500, 8)
		for k := range a.Kinds {
			kind := &a.Kinds[k]
			for _, i := range []int{0, kind.Len / 2, kind.Len - 1} {
				if !equality.Semantic.DeepEqual(kind.Object(i), b.Kinds[k].Object(i)) {
					t.Errorf("%s: %s %d differs between two populations of the same seed", name, kind.Kind, i)
				}
				if kind.Object(i).GetUID() == other.Kinds[k].Object(i).GetUID() {
					t.Errorf("%s: %s %d has the same uid under another seed", name, kind.Kind, i)
				}
			}
		}
	}
}

func TestUniqueNamesAndUIDs(t *testing.T) {
	for _, name := range podsim.Populations() {
		p := made(t, name, 500, 3)
		uids := map[types.UID]string{}
		for k := range p.Kinds {
			kind := &p.Kinds[k]
			keys := map[string]bool{}
			for i := range kind.Len {
				o := kind.Object(i)
				key := o.GetNamespace() + "/" + o.GetName()
				if keys[key] {
					t.Errorf("%s: two %s are called %s", name, kind.Resource, key)
				}
				if was := uids[o.GetUID()]; was != "" || o.GetUID() == "" {
					t.Errorf("%s: %s %s and %s have the uid %q", name, kind.Resource, key, was, o.GetUID())
				}
				keys[key], uids[o.GetUID()] = true, kind.Resource+" "+key
			}
		}
	}
}

func made(t *testing.T, name string, n int, seed uint64) *Population {
	t.Helper()
	p, err := New(name, n, seed)
	check.NoError(t, err)
	return p
}
