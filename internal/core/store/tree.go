package store

import "slices"

// tree is an ordered map: a B+ tree, copied on write. freeze is free and returns an immutable copy,
// which shares its nodes with the tree. When the tree then writes to a shared node, it first copies
// the node. Only one goroutine at a time may write to the tree. Frozen copies never change, and are
// safe for concurrent reads.
//
// The store does not use a tree from a module, for two reasons. First, this tree clears each slot
// that a node no longer uses. Otherwise a hidden reference would keep an old version of an object
// in memory. Second, this tree fills its leaves completely if keys are inserted in ascending order,
// as from a LIST.
type tree[K, V any] struct {
	cmp   func(a, b K) int
	root  *treeNode[K, V]
	count int
	owner uint64
}

// treeEntry has its value first, so that a value of type struct{} uses no space.
type treeEntry[K, V any] struct {
	val V
	key K
}

// treeNode is a leaf (items) or an inner node (kids, seps). Every key under kids[i] is lower than
// seps[i], and no key under kids[i+1] is lower than seps[i].
type treeNode[K, V any] struct {
	owner uint64
	items []treeEntry[K, V]
	kids  []*treeNode[K, V]
	seps  []K
}

const (
	maxTreeNode   = 64                  // entries of a leaf, children of an inner node
	minTreeNode   = maxTreeNode / 4     // a node with fewer is merged with a sibling if possible
	maxMergedNode = maxTreeNode * 3 / 4 // the largest size of a merged node
)

// freeze returns an immutable copy.
func (t *tree[K, V]) freeze() tree[K, V] {
	frozen := *t
	t.owner++
	return frozen
}

// lower returns the position of the first item of a leaf whose key is not below key. found reports
// whether the key of that item is equal to key.
func (t *tree[K, V]) lower(n *treeNode[K, V], key K) (i int, found bool) {
	lo, hi := 0, len(n.items)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		c := t.cmp(n.items[mid].key, key)
		if c == 0 {
			return mid, true
		}
		if c < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, false
}

// child returns the position of the child under which key belongs.
func (t *tree[K, V]) child(n *treeNode[K, V], key K) int {
	lo, hi := 0, len(n.seps)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if t.cmp(n.seps[mid], key) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (t *tree[K, V]) get(key K) (val V, ok bool) {
	n := t.root
	if n == nil {
		return val, false
	}
	for n.kids != nil {
		n = n.kids[t.child(n, key)]
	}
	i, found := t.lower(n, key)
	if !found {
		return val, false
	}
	return n.items[i].val, true
}

// leaf is a leaf of the store's table.
type leaf = treeNode[string, *Object]

// ascend calls yield for the entries whose key is not below the key from. It calls yield in the
// order of the keys, and stops when yield returns false.
func (t *tree[K, V]) ascend(from K, yield func(K, V) bool) {
	if t.root != nil {
		t.ascendNode(t.root, from, true, yield)
	}
}

func (t *tree[K, V]) ascendNode(n *treeNode[K, V], from K, bounded bool, yield func(K, V) bool) bool {
	i := 0
	if n.kids == nil {
		if bounded {
			i, _ = t.lower(n, from)
		}
		for ; i < len(n.items); i++ {
			if !yield(n.items[i].key, n.items[i].val) {
				return false
			}
		}
		return true
	}
	if bounded {
		i = t.child(n, from)
	}
	for ; i < len(n.kids); i++ {
		if !t.ascendNode(n.kids[i], from, bounded, yield) {
			return false
		}
		bounded = false
	}
	return true
}

// eachLeaf calls visit for all leaves, in order. A leaf of a frozen copy never changes.
func (t *tree[K, V]) eachLeaf(visit func(n *treeNode[K, V])) {
	if t.root != nil {
		t.root.eachLeaf(visit)
	}
}

func (n *treeNode[K, V]) eachLeaf(visit func(n *treeNode[K, V])) {
	if n.kids == nil {
		visit(n)
	}
	for _, kid := range n.kids {
		kid.eachLeaf(visit)
	}
}

// own returns n itself if no frozen copy shares it, and otherwise a copy of it.
func (t *tree[K, V]) own(n *treeNode[K, V]) *treeNode[K, V] {
	if n.owner == t.owner {
		return n
	}
	c := &treeNode[K, V]{owner: t.owner}
	if n.kids == nil {
		c.items = append(make([]treeEntry[K, V], 0, cap(n.items)), n.items...)
		return c
	}
	c.kids = append(make([]*treeNode[K, V], 0, cap(n.kids)), n.kids...)
	c.seps = append(make([]K, 0, cap(n.seps)), n.seps...)
	return c
}

// set inserts or replaces an entry.
func (t *tree[K, V]) set(key K, val V) {
	if t.root == nil {
		t.root = &treeNode[K, V]{owner: t.owner}
	}
	t.root = t.own(t.root)
	right, sep := t.setNode(t.root, key, val)
	if right != nil {
		t.root = &treeNode[K, V]{owner: t.owner, kids: []*treeNode[K, V]{t.root, right}, seps: []K{sep}}
	}
}

// setNode puts an entry into n, which no frozen copy shares. right is not nil if n was split.
func (t *tree[K, V]) setNode(n *treeNode[K, V], key K, val V) (right *treeNode[K, V], sep K) {
	if n.kids == nil {
		i, found := t.lower(n, key)
		if found {
			n.items[i] = treeEntry[K, V]{val, key}
			return nil, sep
		}
		t.count++
		return t.insertItem(n, i, treeEntry[K, V]{val, key})
	}
	i := t.child(n, key)
	kid := t.own(n.kids[i])
	n.kids[i] = kid
	if right, sep = t.setNode(kid, key, val); right == nil {
		return nil, sep
	}
	return t.insertKid(n, i, sep, right)
}

// splitAt returns where to split a full node of n entries before an entry is inserted at i: in the
// middle, or after all entries if the new one is appended, so that ascending keys fill the node.
func splitAt(i, n int) int {
	if i == n {
		return n
	}
	return n / 2
}

func (t *tree[K, V]) insertItem(n *treeNode[K, V], i int, e treeEntry[K, V]) (right *treeNode[K, V], sep K) {
	if len(n.items) < maxTreeNode {
		n.items = insertAt(n.items, i, e)
		return nil, sep
	}
	cut := splitAt(i, len(n.items))
	right = &treeNode[K, V]{owner: t.owner}
	right.items, n.items = splitSlice(n.items, cut)
	if i >= cut {
		right.items = insertAt(right.items, i-cut, e)
	} else {
		n.items = insertAt(n.items, i, e)
	}
	return right, right.items[0].key
}

// insertKid inserts kid after position i. The keys of kid start at sep. right is not nil if n was
// split.
func (t *tree[K, V]) insertKid(n *treeNode[K, V], i int, sep K, kid *treeNode[K, V]) (right *treeNode[K, V], up K) {
	if len(n.kids) < maxTreeNode {
		n.seps = insertAt(n.seps, i, sep)
		n.kids = insertAt(n.kids, i+1, kid)
		return nil, up
	}
	cut := splitAt(i+1, len(n.kids))
	right = &treeNode[K, V]{owner: t.owner}
	if cut == len(n.kids) {
		right.kids = insertAt(right.kids, 0, kid)
		return right, sep
	}
	// The separator between the two halves moves up.
	up = n.seps[cut-1]
	right.kids, n.kids = splitSlice(n.kids, cut)
	right.seps, n.seps = splitSlice(n.seps, cut)
	n.seps = deleteAt(n.seps, cut-1)
	if i >= cut {
		t.insertKid(right, i-cut, sep, kid)
	} else {
		t.insertKid(n, i, sep, kid)
	}
	return right, up
}

// delete removes the entry of a key. It returns false if there is no such entry.
func (t *tree[K, V]) delete(key K) bool {
	if _, ok := t.get(key); !ok {
		return false
	}
	t.root = t.own(t.root)
	t.deleteNode(t.root, key)
	t.count--
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	if t.count == 0 {
		t.root = nil
	}
	return true
}

// deleteNode removes key from under n. key must exist, and no frozen copy may share n.
func (t *tree[K, V]) deleteNode(n *treeNode[K, V], key K) {
	if n.kids == nil {
		i, _ := t.lower(n, key)
		n.items = deleteAt(n.items, i)
		return
	}
	i := t.child(n, key)
	kid := t.own(n.kids[i])
	n.kids[i] = kid
	t.deleteNode(kid, key)
	switch size := kid.size(); {
	case size == 0:
		n.kids = deleteAt(n.kids, i)
		if len(n.seps) > 0 {
			n.seps = deleteAt(n.seps, max(i-1, 0))
		}
	case size < minTreeNode:
		t.mergeKid(n, i)
	}
}

func (n *treeNode[K, V]) size() int { return len(n.items) + len(n.kids) }

// mergeKid merges the child at i with a sibling if the result is not too large.
func (t *tree[K, V]) mergeKid(n *treeNode[K, V], i int) {
	if i == len(n.kids)-1 || i > 0 && n.kids[i-1].size() < n.kids[i+1].size() {
		i--
	}
	if i < 0 || n.kids[i].size()+n.kids[i+1].size() > maxMergedNode {
		return
	}
	left, right := t.own(n.kids[i]), n.kids[i+1]
	if left.kids == nil {
		left.items = append(left.items, right.items...)
	} else {
		left.seps = append(append(left.seps, n.seps[i]), right.seps...)
		left.kids = append(left.kids, right.kids...)
	}
	n.kids[i] = left
	n.kids = deleteAt(n.kids, i+1)
	n.seps = deleteAt(n.seps, i)
}

// footprint estimates the bytes of the tree's nodes. item is the size of an entry.
func (t *tree[K, V]) footprint(item int64) int64 {
	// Leaves are full after a LIST, and about two thirds full after random inserts. Inner nodes use a
	// sixtieth of the memory of the leaves.
	return int64(t.count) * item * 5 / 4
}

// insertAt, deleteAt and splitSlice clear every slot beyond the new length, and never share an
// array between two slices.

func insertAt[E any](s []E, i int, e E) []E {
	if len(s) == cap(s) {
		// Double the capacity, but not beyond maxTreeNode, because a node never has more entries.
		grown := make([]E, len(s), min(max(4, 2*cap(s)), max(maxTreeNode, cap(s)+1)))
		copy(grown, s)
		s = grown
	}
	s = s[:len(s)+1]
	copy(s[i+1:], s[i:])
	s[i] = e
	return s
}

func deleteAt[E any](s []E, i int) []E { return slices.Delete(s, i, i+1) }

func splitSlice[E any](s []E, cut int) (right, left []E) {
	right = append(make([]E, 0, maxTreeNode), s[cut:]...)
	clear(s[cut:])
	return right, s[:cut]
}
