package store

import (
	"strconv"
	"testing"

	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestBacklogForgetsCreatedAndDeleted checks that objects that are created and deleted do not make
// the backlog of an unread NotifyingCursor grow without bound. The backlog must keep the newest of
// these objects, every object that the cursor has returned, and every object that still exists.
func TestBacklogForgetsCreatedAndDeleted(t *testing.T) {
	testenv.SkipUnderRace(t)
	cfg := decodeConfig()
	cfg.LogBytes = 1
	s := newStore(t, cfg)
	w := fillPods(t, s, 2)
	c := s.NotifyingCursor(nil, nil)
	drain(c)
	const many = maxGone + 500
	rv := 1000
	for i := range many {
		name := "job" + strconv.Itoa(i%7)
		putPod(t, w, smallPod("", name, 100+i, rv, nil, ""))
		w.Flush()
		deletePod(t, w, smallPod("", name, 100+i, rv+1, nil, ""))
		w.Flush()
		rv += 2
	}
	deletePod(t, w, smallPod("", "p0", 0, rv, nil, ""))
	putPod(t, w, smallPod("", "there", 99, rv+1, nil, ""))
	w.Flush()
	if b := &c.backlog; b.n > maxGone+2 || len(b.gone) != maxGone {
		t.Errorf("%d entries, %d objects that came and went, want %d", b.n, len(b.gone), maxGone)
	}
	first := smallPod("", "x", 100+many-maxGone, 1, nil, "").UID
	came, went := 0, 0
	for i, ch := range drain(c) {
		switch {
		case i == 0 && ch.New.UID() != string(first):
			t.Errorf("the oldest is %s, want %s", ch.New.UID(), first)
		case ch.Key() == "p0" && ch.New != nil, ch.Key() == "there" && ch.Old != nil:
			t.Errorf("%s: %v", ch.Key(), ch)
		case ch.Old == nil:
			came++
		default:
			went++
		}
	}
	if came != maxGone+1 || went != maxGone+1 {
		t.Errorf("%d came and %d went, want %d each", came, went, maxGone+1)
	}
	if b := &c.backlog; b.bytes != 0 || b.n != 0 || b.gone != nil || b.goneLeft != 0 || b.awaiting != 0 {
		t.Errorf("read to its end: %+v", b)
	}
}
