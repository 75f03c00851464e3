package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestTreeAgainstMap compares a tree with a map, and checks that frozen copies do not change.
func TestTreeAgainstMap(t *testing.T) {
	for seed := range uint64(6) {
		rnd := newRand(seed)
		tr := tree[string, int]{cmp: strings.Compare}
		model := map[string]int{}
		type copied struct {
			tree  tree[string, int]
			model map[string]int
		}
		var frozen []copied
		keys := 1 + rnd.IntN(5000)
		for i := range 30_000 {
			growing := i/5000%2 == 0
			key := fmt.Sprintf("k%05d", rnd.IntN(keys))
			if seed == 0 && growing {
				key = fmt.Sprintf("k%05d", i) // ascending, as in a LIST
			}
			_, had := model[key]
			if rnd.IntN(10) < 7 == growing {
				tr.set(key, i)
				model[key] = i
			} else {
				check.Equal(t, tr.delete(key), had, "deleted %s", key)
				delete(model, key)
			}
			check.Equal(t, tr.count, len(model), "entries")
			if rnd.IntN(4000) == 0 {
				frozen = append(frozen, copied{tr.freeze(), maps.Clone(model)})
			}
		}
		frozen = append(frozen, copied{tr, model})
		for _, f := range frozen {
			checkTree(t, &f.tree, f.model)
		}
		for key := range maps.Clone(model) {
			tr.delete(key)
			delete(model, key)
		}
		checkTree(t, &tr, model)
		if tr.root != nil {
			t.Fatal("an empty tree has nodes")
		}
	}
}

func checkTree(t *testing.T, tr *tree[string, int], model map[string]int) {
	t.Helper()
	want := slices.Sorted(maps.Keys(model))
	var got []string
	tr.ascend("", func(k string, v int) bool {
		if model[k] != v {
			t.Fatalf("%s is %d, want %d", k, v, model[k])
		}
		got = append(got, k)
		return true
	})
	if !slices.Equal(got, want) || tr.count != len(want) {
		t.Fatalf("%d keys, count %d, want %d", len(got), tr.count, len(want))
	}
	for i, k := range want {
		if v, ok := tr.get(k); !ok || v != model[k] {
			t.Fatalf("get %s: %d %v", k, v, ok)
		}
		if i%97 == 0 {
			n := 0
			tr.ascend(k+"\x00", func(next string, _ int) bool {
				if next != want[i+1] {
					t.Fatalf("behind %s comes %s", k, next)
				}
				n++
				return false
			})
			if n == 0 && i+1 < len(want) {
				t.Fatalf("nothing behind %s", k)
			}
		}
	}
	checkNode(t, tr.root, tr.owner)
}

// checkNode checks the sizes of a node and its children. All slots beyond the length of a slice
// must be zero.
func checkNode(t *testing.T, n *treeNode[string, int], owner uint64) {
	t.Helper()
	if n == nil {
		return
	}
	for _, e := range n.items[len(n.items):cap(n.items)] {
		if e.key != "" {
			t.Fatalf("a free slot holds %s", e.key)
		}
	}
	for _, k := range n.kids[len(n.kids):cap(n.kids)] {
		if k != nil {
			t.Fatal("a free slot holds a child")
		}
	}
	for _, s := range n.seps[len(n.seps):cap(n.seps)] {
		if s != "" {
			t.Fatalf("a free slot holds %s", s)
		}
	}
	if len(n.items) > maxTreeNode || len(n.kids) > maxTreeNode || n.kids != nil && len(n.kids) != len(n.seps)+1 {
		t.Fatalf("node of %d items, %d children, %d separators", len(n.items), len(n.kids), len(n.seps))
	}
	for _, k := range n.kids {
		if k.size() == 0 {
			t.Fatal("an empty node is left")
		}
		checkNode(t, k, owner)
	}
}

// TestTreeFillsLeavesInOrder checks that keys in ascending order, as in a LIST, leave no half-empty
// leaves behind, and that deletions merge small leaves.
func TestTreeFillsLeavesInOrder(t *testing.T) {
	tr := tree[string, int]{cmp: strings.Compare}
	const n = 10_000
	for i := range n {
		tr.set(fmt.Sprintf("k%05d", i), i)
	}
	leaves := 0
	var count func(*treeNode[string, int])
	count = func(n *treeNode[string, int]) {
		if n.kids == nil {
			leaves++
		}
		for _, k := range n.kids {
			count(k)
		}
	}
	count(tr.root)
	if want := n/maxTreeNode + 1; leaves > want {
		t.Errorf("%d leaves, want %d", leaves, want)
	}
	for i := range n {
		if i%100 != 0 {
			tr.delete(fmt.Sprintf("k%05d", i))
		}
	}
	leaves = 0
	count(tr.root)
	if most := n/100/(minTreeNode/2) + 2; leaves > most {
		t.Errorf("%d leaves hold %d entries, want at most %d", leaves, tr.count, most)
	}
}
