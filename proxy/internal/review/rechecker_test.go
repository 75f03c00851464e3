package review

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/testing/check"
)

// reviewer answers rechecks in virtual time, and records when each review was asked.
type reviewer struct {
	t     *testing.T
	takes time.Duration

	mu    sync.Mutex
	asked []time.Time
	of    map[reviewID]time.Time
	// late is the longest time between two answers to one review, or between the start of a watch and
	// its first answer.
	late   time.Duration
	denies func(q *recheckedReview, who user.Info) Decision
}

func (v *reviewer) ask(_ context.Context, q *recheckedReview, who user.Info) (user.Info, Decision) {
	v.mu.Lock()
	now := time.Now()
	v.asked = append(v.asked, now)
	if last, ok := v.of[q.id]; ok {
		v.late = max(v.late, now.Sub(last))
	}
	v.of[q.id] = now
	answer := Allow
	if v.denies != nil {
		answer = v.denies(q, who)
	}
	v.mu.Unlock()
	time.Sleep(v.takes)
	return who, answer
}

// most returns the largest number of reviews within one second.
func (v *reviewer) most() (most int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	from := 0
	for i, at := range v.asked {
		for at.Sub(v.asked[from]) >= time.Second {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// seen returns how many reviews were made, the longest delay (late), and the number of callers with
// an ended watch.
func (v *reviewer) seen(ended map[string]int) (asked int, late time.Duration, gone int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.asked), v.late, len(ended)
}

// watches starts watches of the given number of callers, each with the given number of permissions.
// ended counts the ended watches by caller.
func (v *reviewer) watches(c *Rechecker, watches, callers, permissions int, token bool) (ended map[string]int, guards []*Recheck) {
	ended = map[string]int{}
	for i := range watches {
		name := fmt.Sprint("caller", i%callers)
		who := &user.DefaultInfo{Name: name}
		b := credential{id: sha256.Sum256([]byte(name)), token: token}
		by := question("watch", fmt.Sprint("things", i/callers%permissions), "")
		g := c.watch(b, who, by, nil, true, func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			ended[name]++
		})
		v.mu.Lock()
		for _, q := range g.reviews {
			if _, ok := v.of[q.id]; !ok {
				v.of[q.id] = time.Now()
			}
		}
		v.mu.Unlock()
		guards = append(guards, g)
	}
	return ended, guards
}

// TestRechecksOfMany checks up to fifty thousand watches. The number of reviews per second and the
// time between two reviews of a caller must not exceed the bounds of the case. No watch may end,
// and the reviews must end with the watches.
func TestRechecksOfMany(t *testing.T) {
	const period, rate = time.Minute, recheckRate
	for name, tt := range map[string]struct {
		watches, callers, permissions int
		token                         bool
		max                           time.Duration
		rate                          int           // per second, at most
		late                          time.Duration // at most
	}{
		"few callers":                          {watches: 50_000, callers: 100, permissions: 5, token: true, max: time.Hour, rate: rate, late: period},
		"many callers":                         {watches: 50_000, callers: 1000, permissions: 5, token: true, max: time.Hour, rate: rate, late: 6000 * time.Second / rate},
		"nodes by ten permissions each":        {watches: 50_000, callers: 5000, permissions: 10, max: time.Hour, rate: rate, late: 50_000 * time.Second / rate},
		"too many, and no later than 5m":       {watches: 10_000, callers: 1000, permissions: 10, max: 5 * time.Minute, rate: 39, late: 5 * time.Minute},
		"too many, and as often as ever":       {watches: 10_000, callers: 1000, permissions: 10, max: period, rate: 191, late: period},
		"less often at most than at the least": {watches: 50_000, callers: 10, permissions: 1, token: true, max: time.Second, rate: rate, late: period},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &reviewer{t: t, takes: 10 * time.Millisecond, of: map[reviewID]time.Time{}}
				c := newRechecker(period, tt.max, time.Hour, v.ask)
				defer c.Close()
				ended, guards := v.watches(c, tt.watches, tt.callers, tt.permissions, tt.token)
				reviews := tt.callers * tt.permissions
				if tt.token {
					reviews += tt.callers
				}
				if n, _ := c.count(); n != reviews {
					t.Fatalf("%d reviews, want %d", n, reviews)
				}
				slack := time.Second / 4 // for a review that waits for its turn
				time.Sleep(2*tt.late + slack)
				if n := v.most(); n > tt.rate {
					t.Errorf("%d reviews in a second, at most %d", n, tt.rate)
				}
				asked, late, gone := v.seen(ended)
				if late > tt.late+slack || c.oldestAge(time.Now()) > tt.late+slack {
					t.Errorf("%s late, and now %s; at most %s", late, c.oldestAge(time.Now()), tt.late)
				}
				if asked < 2*reviews || gone > 0 {
					t.Errorf("%d reviews made, there are %d; %d watches have ended", asked, reviews, gone)
				}
				for _, g := range guards {
					g.Leave()
				}
				before, _, _ := v.seen(ended)
				time.Sleep(2 * time.Hour)
				after, _, _ := v.seen(ended)
				if n, _ := c.count(); n != 0 || after > before+1 {
					t.Errorf("%d reviews are left, %d were made without a watch", n, after-before)
				}
			})
		})
	}
}

// TestRechecksNothing checks that a Rechecker without watches has no timer that keeps it in memory.
// If New fails, nothing closes its Rechecker.
func TestRechecksNothing(t *testing.T) {
	if NewRechecker(time.Minute, time.Hour, time.Hour, nil, nil).timer.Stop() {
		t.Error("the timer runs")
	}
}

// TestRechecksRevoke checks that all watches of a revoked token or permission end, and that no
// other watches end. It also checks that a single denial ends no watch.
func TestRechecksRevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &reviewer{t: t, of: map[reviewID]time.Time{}}
		c := newRechecker(time.Minute, time.Hour, time.Hour, v.ask)
		defer c.Close()
		ended, _ := v.watches(c, 1000, 10, 4, true)
		deny := func(f func(q *recheckedReview, who user.Info) Decision) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.denies = f
		}
		got := func() map[string]int {
			v.mu.Lock()
			defer v.mu.Unlock()
			return maps.Clone(ended)
		}
		once := map[reviewID]bool{}
		deny(func(q *recheckedReview, _ user.Info) Decision { // deny each review once
			if once[q.id] {
				return Allow
			}
			once[q.id] = true
			return Deny
		})
		time.Sleep(3 * time.Minute)
		if n := got(); len(n) > 0 {
			t.Errorf("by one no have ended %v", n)
		}
		deny(func(q *recheckedReview, who user.Info) Decision {
			if q.action == nil && who.GetName() == "caller3" {
				return Deny
			}
			return Allow
		})
		time.Sleep(time.Minute + 2*confirmDelay)
		if n := got(); n["caller3"] != 100 || len(n) != 1 {
			t.Errorf("by a token have ended %v", n)
		}
		deny(func(q *recheckedReview, who user.Info) Decision {
			if q.action != nil && q.action.Resource == "things2" && who.GetName() == "caller5" {
				return Deny
			}
			return Allow
		})
		time.Sleep(time.Minute + 2*confirmDelay)
		if n := got(); n["caller5"] != 25 || len(n) != 2 {
			t.Errorf("by a permission have ended %v", n)
		}
	})
}

// TestRechecksConfirm checks that the Rechecker confirms a denial soon, even if the upstream cannot
// be reached. If the upstream answers with errors, the watch ends after three of them, which are a
// period apart.
func TestRechecksConfirm(t *testing.T) {
	const no, yes, refused, away, grace = Deny, Allow, Unanswered, Unreachable, Grace
	const soon, later = confirmDelay, time.Minute
	for name, tt := range map[string]struct {
		answers []Decision
		after   []time.Duration
		ends    bool
	}{
		"confirmed":           {[]Decision{no, no}, []time.Duration{soon}, true},
		"away":                {[]Decision{no, away, away, no}, []time.Duration{soon, soon, soon}, true},
		"within grace":        {[]Decision{no, grace, grace, no}, []time.Duration{soon, soon, soon}, true},
		"refused":             {[]Decision{no, refused, no}, []time.Duration{soon, later}, true},
		"refused, then yes":   {[]Decision{no, refused, refused, yes}, []time.Duration{soon, later, later}, false},
		"refused three times": {[]Decision{no, refused, refused, refused}, []time.Duration{soon, later, later}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &reviewer{t: t, of: map[reviewID]time.Time{}}
				answers := tt.answers
				v.denies = func(*recheckedReview, user.Info) (d Decision) {
					if len(answers) == 0 {
						return yes
					}
					d, answers = answers[0], answers[1:]
					return d
				}
				c := newRechecker(time.Minute, time.Hour, time.Hour, v.ask)
				defer c.Close()
				ended, _ := v.watches(c, 1, 1, 1, false)
				time.Sleep(10 * time.Minute)
				_, _, gone := v.seen(ended)
				var after []time.Duration
				for i := range tt.after {
					after = append(after, v.asked[i+1].Sub(v.asked[i]))
				}
				if !slices.Equal(after, tt.after) || (gone > 0) != tt.ends || tt.ends && len(v.asked) != len(tt.answers) {
					t.Errorf("asked after %v, %d times; %d have ended", after, len(v.asked), gone)
				}
			})
		})
	}
}

// TestRechecksParts checks that watches with different selectors share the review of the request
// without selectors. If that review is denied, each watch continues with a review of its own
// selectors.
func TestRechecksParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &reviewer{t: t, of: map[reviewID]time.Time{}}
		c := newRechecker(time.Minute, time.Hour, time.Hour, v.ask)
		defer c.Close()
		whole := question("watch", "pods", "")
		b, who := credential{id: sha256.Sum256([]byte("jane"))}, &user.DefaultInfo{Name: "jane"}
		var ended []string
		begin := func(part string) {
			var of *request.Request
			if part != "" {
				p := *whole
				p.LabelText = part
				of = &p
			}
			c.watch(b, who, whole, of, true, func() {
				v.mu.Lock()
				defer v.mu.Unlock()
				ended = append(ended, part)
			})
		}
		for _, part := range []string{"", "a", "a", "b", "c"} {
			begin(part)
		}
		if n, _ := c.count(); n != 1 {
			t.Fatalf("%d reviews", n)
		}
		v.mu.Lock()
		v.denies = func(q *recheckedReview, _ user.Info) Decision {
			if q.action.LabelText == "a" || q.action.LabelText == "b" {
				return Allow
			}
			return Deny
		}
		v.mu.Unlock()
		time.Sleep(3 * time.Minute)
		v.mu.Lock()
		slices.Sort(ended)
		if !slices.Equal(ended, []string{"", "c"}) {
			t.Errorf("ended: %q", ended)
		}
		v.mu.Unlock()
		if n, _ := c.count(); n != 2 {
			t.Errorf("%d reviews", n)
		}
	})
}

// TestRechecksHang checks reviews that take long. The number of concurrent reviews is bounded, and
// an answer that arrives after its watch has ended has no effect.
func TestRechecksHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &reviewer{t: t, takes: time.Hour, of: map[reviewID]time.Time{}}
		v.denies = func(*recheckedReview, user.Info) Decision { return Deny }
		c := newRechecker(time.Minute, time.Hour, time.Hour, v.ask)
		ended, guards := v.watches(c, 1000, 1000, 1, false)
		time.Sleep(30 * time.Minute)
		v.mu.Lock()
		check.Equal(t, len(v.asked), maxConcurrentRechecks, "are asked about")
		v.mu.Unlock()
		if c.oldestAge(time.Now()) < 29*time.Minute {
			t.Errorf("it is not told that they are late: %s", c.oldestAge(time.Now()))
		}
		for _, g := range guards {
			g.Leave()
		}
		c.Close()
		if _, _, gone := v.seen(ended); gone > 0 || len(c.reviews) > 0 || c.due.Len()+c.denied.Len() > 0 {
			t.Errorf("%d ended; %d reviews left", gone, len(c.reviews))
		}
	})
}

// newRechecker returns a Rechecker that calls the given function (ask) instead of the upstream.
func newRechecker(period, most, grace time.Duration, ask asker) *Rechecker {
	c := NewRechecker(period, most, grace, nil, nil)
	c.ask = ask
	return c
}
