package review

import (
	"container/heap"
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// cachedAnswer is an answer of the upstream and the time when it was received.
type cachedAnswer struct {
	user user.Info // of a token; nil for a permission
	at   time.Time
}

// These bound the number and the memory of the answers that the proxy caches for an outage. An
// answer uses answerBytes and the length of the caller's name. An answer about a token also uses
// its user's UID, groups and extra.
const (
	maxCachedPermissions = 65_536
	maxCachedDenials     = 8_192
	MaxCachedTokens      = 32_768
	maxAnswerBytes       = 64 << 20
	answerBytes          = 240
	// textBytes is the overhead of a string.
	textBytes = 24
)

// size estimates the memory of an answer in bytes, without the caller's name.
func (a cachedAnswer) size() int64 {
	n := answerBytes
	if a.user == nil {
		return int64(n)
	}
	n += len(a.user.GetUID())
	for _, group := range a.user.GetGroups() {
		n += textBytes + len(group)
	}
	for key, values := range a.user.GetExtra() {
		n += 2*textBytes + len(key)
		for _, value := range values {
			n += textBytes + len(value)
		}
	}
	return int64(n)
}

// minAnswerAge is the minimum time for which answers are cached. As long as an answer about a
// caller is cached, flow control treats the caller as a known user.
const minAnswerAge = 10 * time.Minute

// answerAge returns how long answers with the given TTL are cached.
func (o *Config) answerAge(ttl time.Duration) time.Duration {
	return max(o.OutageGrace, ttl, minAnswerAge)
}

// answerCache caches the upstream's last answers about callers. From time to time, add removes
// answers that are older than maxAge. When the cache is full, add removes the least recently used
// answer of the caller whose answers use the most memory. So no caller displaces answers about
// callers that use less memory. answerCache is safe for concurrent use.
type answerCache struct {
	limit  int
	maxAge time.Duration // of an answer

	mu sync.Mutex
	// The value is an *answerEntry in the list of its caller.
	answers map[[sha256.Size]byte]*list.Element
	callers map[string]*callerAnswers
	bytes   int64
	most    answerHeap
	swept   time.Time // the time of the last sweep
}

// answerEntry is an answer in answerCache.
type answerEntry struct {
	id     [sha256.Size]byte // digest of a token, or of an action and its caller
	caller *callerAnswers
	bytes  int64
	cachedAnswer
}

// callerAnswers contains the answers about one caller, the most recently used first.
type callerAnswers struct {
	name    string
	entries list.List
	bytes   int64
	index   int // in answerHeap
}

func newAnswerCache(limit int, maxAge time.Duration) *answerCache {
	return &answerCache{limit: limit, maxAge: maxAge, swept: time.Now(), answers: map[[sha256.Size]byte]*list.Element{}, callers: map[string]*callerAnswers{}}
}

// get returns the last answer with the given id. It may be older than maxAge.
func (c *answerCache) get(id [sha256.Size]byte) (cachedAnswer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.answers[id]
	if e == nil {
		return cachedAnswer{}, false
	}
	entry := e.Value.(*answerEntry)
	entry.caller.entries.MoveToFront(e)
	return entry.cachedAnswer, true
}

// add caches an answer about a caller. It replaces the previous answer with the same id.
func (c *answerCache) add(who user.Info, id [sha256.Size]byte, a cachedAnswer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(c.answers[id])
	c.sweep(time.Now())
	caller := c.callers[who.GetName()]
	if caller == nil {
		caller = &callerAnswers{name: who.GetName()}
		c.callers[caller.name] = caller
		heap.Push(&c.most, caller)
	}
	size := a.size() + int64(len(caller.name))
	c.answers[id] = caller.entries.PushFront(&answerEntry{id, caller, size, a})
	caller.bytes += size
	c.bytes += size
	heap.Fix(&c.most, caller.index)
	for len(c.answers) > c.limit || c.bytes > maxAnswerBytes {
		c.removeLocked(c.most[0].entries.Back())
	}
}

func (c *answerCache) remove(id [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(c.answers[id])
}

// sweep removes answers that are older than maxAge. It does nothing if the last sweep was less than
// an eighth of maxAge ago, because a sweep examines all answers. The caller holds the lock.
func (c *answerCache) sweep(now time.Time) {
	if now.Sub(c.swept) < c.maxAge/8 {
		return
	}
	c.swept = now
	for _, e := range c.answers {
		if now.Sub(e.Value.(*answerEntry).at) > c.maxAge {
			c.removeLocked(e)
		}
	}
}

// removeLocked removes an answer, unless e is nil. The caller holds the lock.
func (c *answerCache) removeLocked(e *list.Element) {
	if e == nil {
		return
	}
	entry := e.Value.(*answerEntry)
	delete(c.answers, entry.id)
	entry.caller.entries.Remove(e)
	entry.caller.bytes -= entry.bytes
	c.bytes -= entry.bytes
	if entry.caller.entries.Len() > 0 {
		heap.Fix(&c.most, entry.caller.index)
		return
	}
	heap.Remove(&c.most, entry.caller.index)
	delete(c.callers, entry.caller.name)
}

// answerHeap is a heap of callers. The caller whose answers use the most memory is first.
type answerHeap []*callerAnswers

func (h answerHeap) Len() int           { return len(h) }
func (h answerHeap) Less(i, j int) bool { return h[i].bytes > h[j].bytes }
func (h answerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements [heap.Interface].
func (h *answerHeap) Push(x any) {
	caller := x.(*callerAnswers)
	caller.index = len(*h)
	*h = append(*h, caller)
}

// Pop implements [heap.Interface].
func (h *answerHeap) Pop() any {
	last := len(*h) - 1
	caller := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return caller
}
