package review

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestAnswersOfOthers checks that a caller that reads many different names displaces no answer
// about another caller. The other caller needs its answer in an outage.
func TestAnswersOfOthers(t *testing.T) {
	a := &Authorizer{breaker: &Breaker{}, timeout: time.Minute, allowTTL: time.Hour, allowed: newAnswerCache(maxCachedPermissions, time.Hour), denied: newAnswerCache(maxCachedDenials, time.Hour), seats: newReviewSeats(time.Minute)}
	a.reviews = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	jane, joe, list := &user.DefaultInfo{Name: "jane"}, &user.DefaultInfo{Name: "joe"}, question("list", "pods", "")
	a.Allows(t.Context(), jane, list, Options{})
	for i := range 100_000 {
		a.Allows(t.Context(), joe, question("get", "pods", fmt.Sprint(i)), Options{})
	}
	a.reviews = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		t.Error("the answer about jane is not kept")
		return authorizer.DecisionDeny, "", nil
	})
	if d := a.Allows(t.Context(), jane, list, Options{}); d != Allow {
		t.Errorf("jane: %d", d)
	}
}

func TestAnswerCache(t *testing.T) {
	const limit = 100
	c := newAnswerCache(limit, time.Hour)
	id := func(who string, n int) [sha256.Size]byte { return sha256.Sum256(fmt.Append(nil, who, n)) }
	cached := func(who string, most int) (n int) {
		for i := range most {
			if _, ok := c.get(id(who, i)); ok {
				n++
			}
		}
		return n
	}
	now := time.Now()
	add := func(who string, n int) { c.add(&user.DefaultInfo{Name: who}, id(who, n), cachedAnswer{at: now}) }
	for i := range 10 {
		add("few", i)
		add("few", i) // replaces the answer
	}
	for i := range 10 * limit {
		add("many", i)
		// The answer is used, so the cache removes all other answers of its caller first.
		if i >= limit {
			if _, ok := c.get(id("many", 0)); !ok {
				t.Fatalf("%d: what is used is lost", i)
			}
		} else {
			c.get(id("many", 0))
		}
	}
	if few, many := cached("few", 10), cached("many", 10*limit); few != 10 || many != limit-10 || len(c.answers) != limit {
		t.Errorf("%d of few, %d of many, %d together", few, many, len(c.answers))
	}
	for i := range limit {
		add("more", i)
	}
	if few, many, more := cached("few", 10), cached("many", 10*limit), cached("more", limit); few != 10 || many < 40 || more < 40 || few+many+more != limit {
		t.Errorf("%d, %d and %d are cached", few, many, more)
	}
	for _, who := range []string{"few", "many", "more"} {
		for i := range 10 * limit {
			c.remove(id(who, i))
		}
	}
	if len(c.answers)+len(c.callers)+len(c.most) != 0 {
		t.Errorf("%d answers of %d callers are left", len(c.answers), len(c.callers))
	}
}

// TestOldAnswersGo checks that answers older than maxAge are removed.
func TestOldAnswersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newAnswerCache(MaxCachedTokens, time.Hour)
		groups := []string{"staff"}
		add := func(n int) {
			who := &user.DefaultInfo{Name: "jane", Groups: slices.Clone(groups)}
			c.add(who, sha256.Sum256(fmt.Append(nil, n)), cachedAnswer{user: who, at: time.Now()})
		}
		for i := range 1000 {
			add(i)
		}
		time.Sleep(59 * time.Minute)
		add(1000)
		check.Equal(t, len(c.answers), 1001, "are left within the time")
		time.Sleep(10 * time.Minute)
		add(1001)
		if len(c.answers) != 2 || len(c.callers) != 1 || c.most[0].entries.Len() != 2 {
			t.Errorf("%d are left of %d callers", len(c.answers), len(c.callers))
		}
	})
}
