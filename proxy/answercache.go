package proxy

import (
	"container/heap"
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// cachedAnswer is an answer of the upstream, and its time.
type cachedAnswer struct {
	user user.Info // of a token; nil for a permission
	at   time.Time
}

// The most answers that are kept for Options.Grace. A permission takes 0.24 KB, 16 MB together, and
// a token besides what its user's groups take.
const (
	maxCachedPermissions = 65_536
	maxCachedTokens      = 32_768
)

// answerCache keeps the upstream's last answers about callers. When it is full, the caller of whom it
// has most loses the one that was used longest ago. So a caller can only take places that others do
// not need. It is safe for concurrent use.
type answerCache struct {
	limit int

	mu      sync.Mutex
	answers map[[sha256.Size]byte]*list.Element // of heldAnswer, in the list of its caller
	callers map[string]*callerAnswers
	most    answerHeap
}

// heldAnswer is an answer in the cache.
type heldAnswer struct {
	id [sha256.Size]byte // digest of a token, or of an action with its caller
	of *callerAnswers
	cachedAnswer
}

// callerAnswers has the answers about one caller, those that were used last first.
type callerAnswers struct {
	name  string
	held  list.List
	index int // in the heap
}

func newAnswerCache(limit int) *answerCache {
	return &answerCache{limit: limit, answers: map[[sha256.Size]byte]*list.Element{}, callers: map[string]*callerAnswers{}}
}

// get returns the last answer.
func (c *answerCache) get(id [sha256.Size]byte) (cachedAnswer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.answers[id]
	if e == nil {
		return cachedAnswer{}, false
	}
	held := e.Value.(*heldAnswer)
	held.of.held.MoveToFront(e)
	return held.cachedAnswer, true
}

// add keeps an answer about a caller in the place of the last one.
func (c *answerCache) add(who user.Info, id [sha256.Size]byte, a cachedAnswer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(c.answers[id])
	of := c.callers[who.GetName()]
	if of == nil {
		of = &callerAnswers{name: who.GetName()}
		c.callers[of.name] = of
		heap.Push(&c.most, of)
	}
	c.answers[id] = of.held.PushFront(&heldAnswer{id, of, a})
	heap.Fix(&c.most, of.index)
	if len(c.answers) > c.limit {
		c.removeLocked(c.most[0].held.Back())
	}
}

// remove forgets an answer.
func (c *answerCache) remove(id [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(c.answers[id])
}

// removeLocked removes an answer, unless it is nil. The caller holds the lock.
func (c *answerCache) removeLocked(e *list.Element) {
	if e == nil {
		return
	}
	held := e.Value.(*heldAnswer)
	delete(c.answers, held.id)
	held.of.held.Remove(e)
	if held.of.held.Len() > 0 {
		heap.Fix(&c.most, held.of.index)
		return
	}
	heap.Remove(&c.most, held.of.index)
	delete(c.callers, held.of.name)
}

// answerHeap is a heap of callers, the one with the most answers first.
type answerHeap []*callerAnswers

func (h answerHeap) Len() int           { return len(h) }
func (h answerHeap) Less(i, j int) bool { return h[i].held.Len() > h[j].held.Len() }
func (h answerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *answerHeap) Push(caller any) {
	of := caller.(*callerAnswers)
	of.index = len(*h)
	*h = append(*h, of)
}

// Pop implements [heap.Interface].
func (h *answerHeap) Pop() any {
	last := len(*h) - 1
	of := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return of
}
