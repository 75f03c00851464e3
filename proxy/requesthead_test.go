package proxy

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestUnfinishedHeads has clients begin heads and not end them.
func TestUnfinishedHeads(t *testing.T) {
	const large = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		tc := newTestConnections(t, 100_000)
		usual := tc.open("a")
		var slow []*connection
		for range unknownHeadMemory / large {
			c := tc.open("b")
			if slow = append(slow, c); !c.growHead(large) {
				t.Fatal("a head has no room")
			}
		}
		if next := tc.open("c"); next.growHead(large) || !isClosed(next) {
			t.Error("a head has room beside others that have just begun")
		}
		time.Sleep(2 * headTime)
		if next := tc.open("c"); !next.growHead(large) || !isClosed(slow[0]) || isClosed(slow[1]) || isClosed(usual) {
			t.Error("not the slowest head made room")
		}
		if got := tc.heads.Usage()[budgetUnknown].Used; got != unknownHeadMemory {
			t.Errorf("%d bytes", got)
		}
		slow[1].begin()
		several := slow[2]
		several.openStream()
		several.openStream()
		several.begin()
		if got := several.head; slow[1].head != 0 || got != large/2 {
			t.Errorf("%d bytes remain of two heads once a request has begun", got)
		}
		several.begin()
		if several.head != 0 {
			t.Error("a head counts whose request has begun")
		}
		several.openStream()
		several.growHead(large)
		several.end()
		several.end()
		if several.endStreams(3, false); several.head != 0 {
			t.Error("a head counts whose stream was refused")
		}
	})
}

// TestUnfinishedHeadsOfKnown has known clients begin heads and not end them. They take no room of
// each other, and none that is reserved for usual heads.
func TestUnfinishedHeadsOfKnown(t *testing.T) {
	tc := newTestConnections(t, 100_000)
	first := tc.known()
	if !first.growHead(headMemory / 2) {
		t.Error("there is no room")
	}
	if next := tc.known(); next.growHead(connectionBytes+1) || !isClosed(next) || isClosed(first) {
		t.Error("there is room beyond the bound")
	}
	if next := tc.known(); !next.growHead(connectionBytes) || isClosed(next) || isClosed(first) {
		t.Error("an accepted connection with a small head was closed for the heads of others")
	}
}

// TestHeadsOfRequests begins large heads while those of requests take all the room. Their
// connections are closed, for which no other ones are.
func TestHeadsOfRequests(t *testing.T) {
	tc := newTestConnections(t, 100_000)
	tc.heads.NewCharge(budgetSmall, "").Add(headMemory + 1)
	usual := tc.known()
	for name, c := range map[string]*connection{"unknown": tc.open("a"), "known": tc.known()} {
		if c.growHead(connectionBytes+1) || !isClosed(c) {
			t.Errorf("%s: there is room beyond the bound", name)
		}
	}
	if isClosed(usual) {
		t.Error("another connection was closed")
	}
}
