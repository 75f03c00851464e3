package review

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// TestAnswerBytes checks that the cache bounds the total size of users' groups and extras. The
// caller whose answers use the most memory loses answers. An answer that is larger than the bound
// is not cached.
func TestAnswerBytes(t *testing.T) {
	c := newAnswerCache(MaxCachedTokens, time.Hour)
	id := func(who string, n int) [sha256.Size]byte { return sha256.Sum256(fmt.Append(nil, who, n)) }
	add := func(who string, n, size int) {
		u := &user.DefaultInfo{Name: who, Groups: []string{strings.Repeat("g", size/2)}, Extra: map[string][]string{"a": {strings.Repeat("x", size/2)}}}
		c.add(u, id(who, n), cachedAnswer{user: u, at: time.Now()})
	}
	for i := range 100 {
		add("small", i, 100)
	}
	for i := range 1000 {
		add("large", i, 1<<20)
	}
	count := func(who string, most int) (n int) {
		for i := range most {
			if _, ok := c.get(id(who, i)); ok {
				n++
			}
		}
		return n
	}
	if small, large := count("small", 100), count("large", 1000); small != 100 || large < maxAnswerBytes>>20-2 || large > maxAnswerBytes>>20 || c.bytes > maxAnswerBytes {
		t.Errorf("%d small and %d large answers, %d bytes", small, large, c.bytes)
	}
	add("larger", 0, maxAnswerBytes+1)
	if small, larger := count("small", 100), count("larger", 1); small != 100 || larger != 0 {
		t.Errorf("%d small and %d larger answers", small, larger)
	}
	for i := range 1000 {
		c.remove(id("small", i))
		c.remove(id("large", i))
	}
	if c.bytes != 0 || len(c.callers) != 0 {
		t.Errorf("%d bytes of %d callers are left", c.bytes, len(c.callers))
	}
}
