package budget

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

const (
	unknown = iota
	known
)

func small() *Budget {
	return New(100, Level{Name: "unknown", Most: 40}, Level{Name: "known", Reserved: 30, Share: 50})
}

// TestBounds checks which bound refuses bytes.
func TestBounds(t *testing.T) {
	type take struct {
		level int
		share string
		n     int64
	}
	for name, c := range map[string]struct {
		have    []take
		want    take
		refused bool
		ofShare bool
	}{
		"the first fits":                 {nil, take{known, "a", 50}, false, false},
		"nothing fits in a full budget":  {[]take{{known, "a", 50}, {known, "b", 50}}, take{known, "c", 1}, true, false},
		"no bytes fit in a full budget":  {[]take{{known, "a", 50}, {known, "b", 50}}, take{known, "c", 0}, false, false},
		"a share is bounded":             {[]take{{known, "a", 50}}, take{known, "a", 1}, true, true},
		"another share is not":           {[]take{{known, "a", 50}}, take{known, "b", 50}, false, false},
		"no share is not":                {nil, take{known, "", 60}, false, false},
		"a level without shares":         {[]take{{unknown, "a", 20}}, take{unknown, "a", 20}, false, false},
		"a level is bounded":             {[]take{{unknown, "a", 40}}, take{unknown, "b", 1}, true, false},
		"reserved bytes are not for all": {[]take{{known, "", 65}}, take{unknown, "", 36}, true, false},
		"unreserved bytes are":           {[]take{{known, "", 65}}, take{unknown, "", 35}, false, false},
		"reserved bytes stay free":       {[]take{{unknown, "", 40}}, take{known, "", 60}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := small()
			for _, h := range c.have {
				if _, err := b.Take(h.level, h.share, h.n); err != nil {
					t.Fatalf("take %+v: %v", h, err)
				}
			}
			_, err := b.Take(c.want.level, c.want.share, c.want.n)
			if (err != nil) != c.refused {
				t.Fatalf("got %v, want refused: %v", err, c.refused)
			}
			var exceeded *ExceededError
			if err != nil && (!errors.As(err, &exceeded) || exceeded.OfShare != c.ofShare) {
				t.Errorf("got %v, want it to be of a share: %v", err, c.ofShare)
			}
			if got := b.Usage()[c.want.level].Refused; (got == 1) != c.refused {
				t.Errorf("%d refused", got)
			}
		})
	}
}

func TestNoLimit(t *testing.T) {
	b := New(-1, Level{Name: "all", Most: 1, Share: 1})
	c, err := b.Take(0, "a", 1<<40)
	check.NoError(t, err)
	check.Equal(t, b.Excess(0), 0, "excess")
	if c.MoveToShare(0, "b") != nil || c.Room() <= 0 || b.Room(0) <= 0 {
		t.Error("a bound")
	}
	c.Release()
}

// TestAddAndMove checks Add and Move, which count bytes that are already in memory. They must count
// these bytes even if a bound is exceeded, and Grow must then add no more.
func TestAddAndMove(t *testing.T) {
	b := small()
	c := b.NewCharge(unknown, "")
	c.Add(70)
	check.Equal(t, b.Excess(unknown), 30, "excess")
	if c.Grow(1) == nil {
		t.Error("a level above its bound may grow")
	}
	c.Move(known, "a")
	if got := b.Excess(unknown); got > 0 {
		t.Errorf("excess %d after the move", got)
	}
	check.Equal(t, b.ShareBytes(known, "a"), 70, "the share has bytes")
	c.Add(-30)
	if err := c.Grow(10); err != nil {
		t.Errorf("grow: %v", err)
	}
	check.Equal(t, c.Bytes(), 50, "bytes")
	c.Release()
	c.Release()
	if u := b.Usage()[known]; u.Used != 0 || u.Shares != 0 || u.Peak != 70 {
		t.Errorf("left: %+v", u)
	}
	var none *Charge
	none.Release()
	(&Charge{}).Release()
}

// TestFair checks that a share of a fair level can grow until it uses as many bytes as the level
// still has free, and no further.
func TestFair(t *testing.T) {
	b := New(100, Level{Name: "fair", Most: 64, Fair: true}, Level{Name: "rest"})
	take := func(share string) (n int64) {
		c := b.NewCharge(0, share)
		for ; c.Grow(1) == nil; n++ {
		}
		return n
	}
	if a, c := take("a"), take("b"); a != 32 || c != 16 {
		t.Errorf("%d and %d of 64", a, c)
	}
	rest := b.NewCharge(1, "")
	rest.Add(100 - 48 - 1) // leaves one byte
	last := b.NewCharge(0, "c")
	if a, c := b.NewCharge(0, "a").Room(), last.Room(); a != 0 || c != 1 {
		t.Errorf("one may have %d bytes more, and another %d", a, c)
	}
	if err := last.Grow(1); err != nil || b.Room(0) != 0 {
		t.Errorf("%v, and %d bytes", err, b.Room(0))
	}
}

// TestMoveToShare checks that bytes move to a share only if the share has room for them.
func TestMoveToShare(t *testing.T) {
	b := small()
	c := b.NewCharge(unknown, "x")
	c.Add(30)
	if err := c.MoveToShare(known, "a"); err != nil || b.ShareBytes(known, "a") != 30 {
		t.Errorf("%v, and %d bytes", err, b.ShareBytes(known, "a"))
	}
	second := b.NewCharge(unknown, "x")
	second.Add(30)
	err := second.MoveToShare(known, "a")
	var exceeded *ExceededError
	if !errors.As(err, &exceeded) || !exceeded.OfShare || b.ShareBytes(known, "a") != 30 || b.ShareBytes(unknown, "x") != 30 {
		t.Errorf("%v", err)
	}
	if err := second.MoveToShare(known, ""); err != nil || b.Usage()[known].Used != 60 {
		t.Errorf("%v", err)
	}
}

// TestOthers checks that the bytes of CountAlso count against the limit and belong to no level.
func TestOthers(t *testing.T) {
	b, others := small(), int64(0)
	b.CountAlso(func() int64 { return others })
	c, err := b.Take(known, "", 60)
	check.NoError(t, err)
	if others = 50; c.Grow(1) == nil || b.Excess(known) != 10 || b.Used() != 110 || b.Room(known) != -10 {
		t.Errorf("%d bytes, %d too many", b.Used(), b.Excess(known))
	}
	if others = 0; c.Grow(40) != nil || b.Used() != 100 {
		t.Errorf("%d bytes", b.Used())
	}
}

func TestReservedAboveLimit(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(10, Level{Reserved: 6}, Level{Reserved: 5})
}

// TestProperties applies random operations, and compares the Budget's sums with the sums of all
// charges.
func TestProperties(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := New(1000, Level{Name: "a", Most: 300, Share: 100}, Level{Name: "b", Reserved: 200, Share: 400}, Level{Name: "c", Reserved: 100})
		var charges []*Charge
		forced := false
		for range 300 {
			level, share, n := r.IntN(3), strconv.Itoa(r.IntN(4)), r.Int64N(120)
			if r.IntN(4) == 0 {
				share = ""
			}
			i := 0
			if len(charges) > 0 {
				i = r.IntN(len(charges))
			}
			switch op := r.IntN(10); {
			case op < 5 || len(charges) == 0:
				if c, err := b.Take(level, share, n); err == nil {
					charges = append(charges, c)
				}
			case op < 7:
				_ = charges[i].Grow(n)
			case op == 7 && seed%2 == 0: // in half of the runs, no operation exceeds a bound
				charges[i].Move(level, share)
				forced = true
			default:
				charges[i].Release()
				charges = append(charges[:i], charges[i+1:]...)
			}
			checkCharges(t, b, charges, forced)
		}
		for _, c := range charges {
			c.Release()
		}
		checkCharges(t, b, nil, forced)
	}
}

func checkCharges(t *testing.T, b *Budget, charges []*Charge, forced bool) {
	t.Helper()
	var used [3]int64
	shares := [3]map[string]int64{{}, {}, {}}
	for _, c := range charges {
		used[c.level] += c.bytes
		if c.share != "" && c.bytes > 0 {
			shares[c.level][c.share] += c.bytes
		}
	}
	for i, u := range b.Usage() {
		if u.Used != used[i] || u.Shares != len(shares[i]) {
			t.Fatalf("level %s: %d bytes and %d shares, want %d and %v", u.Level, u.Used, u.Shares, used[i], shares[i])
		}
		l := b.levels[i]
		for name, n := range shares[i] {
			if b.ShareBytes(i, name) != n || !forced && l.Share > 0 && n > l.Share {
				t.Fatalf("share %s of level %s: %d bytes", name, u.Level, n)
			}
		}
		if !forced && (l.Most > 0 && u.Used > l.Most || b.Excess(i) > 0) {
			t.Fatalf("level %s exceeds its bound: %+v", u.Level, u)
		}
	}
}

// TestConcurrent checks for data races, and checks that the limit holds at any time.
func TestConcurrent(t *testing.T) {
	b := New(64, Level{Name: "all", Share: 16})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 1000 {
				if c, err := b.Take(0, strconv.Itoa(i%3), 4); err == nil {
					if b.Excess(0) > 0 {
						t.Error("above the limit")
					}
					_ = c.Grow(4)
					c.Release()
				}
			}
		})
	}
	all.Wait()
	if u := b.Usage()[0]; u.Used != 0 || u.Peak > 64 {
		t.Errorf("left: %+v", u)
	}
}
