package conn

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestUnfinishedHeads checks which connections are closed when unknown clients start large heads
// and do not finish them: the slowest ones, and only to make room for another head.
func TestUnfinishedHeads(t *testing.T) {
	const large = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		tc := newTestListener(t, 100_000)
		usual := tc.open("a")
		var slow []*Conn
		for range unknownHeadMemory / large {
			c := tc.open("b")
			if slow = append(slow, c); !c.growHead(0, large, 1) {
				t.Fatal("a head has no room")
			}
		}
		if next := tc.open("c"); next.growHead(0, large, 1) || !isClosed(next) {
			t.Error("a head has room beside others that have just begun")
		}
		time.Sleep(2 * headTime)
		if next := tc.open("c"); !next.growHead(0, large, 1) || !isClosed(slow[0]) || isClosed(slow[1]) || isClosed(usual) {
			t.Error("not the slowest head made room")
		}
		check.Equal(t, tc.heads.Usage()[unknown].Used, unknownHeadMemory, "bytes")
		slow[1].Begin(plain)
		check.Equal(t, slow[1].head, 0, "a head counts whose request has begun")
	})
}

// TestUnfinishedHeadsOfKnown checks that an unfinished head of a known client does not make the
// listener close the connections of other clients. The head uses no memory that is reserved for
// small heads.
func TestUnfinishedHeadsOfKnown(t *testing.T) {
	tc := newTestListener(t, 100_000)
	first := tc.known()
	if !first.growHead(0, headMemory/2, 1) {
		t.Error("there is no room")
	}
	if next := tc.known(); next.growHead(0, ConnectionBytes+1, 1) || !isClosed(next) || isClosed(first) {
		t.Error("there is room beyond the bound")
	}
	if next := tc.known(); !next.growHead(0, ConnectionBytes, 1) || isClosed(next) || isClosed(first) {
		t.Error("an accepted connection with a small head was closed for the heads of others")
	}
}

// TestHeadsOfRequests starts large heads while the heads of running requests use the whole budget.
// It checks that the connections with the new heads are closed, and no other connection.
func TestHeadsOfRequests(t *testing.T) {
	tc := newTestListener(t, 100_000)
	tc.heads.NewCharge(small, "").Add(headMemory + 1)
	usual := tc.known()
	for name, c := range map[string]*Conn{"unknown": tc.open("a"), "known": tc.known()} {
		if c.growHead(0, ConnectionBytes+1, 1) || !isClosed(c) {
			t.Errorf("%s: there is room beyond the bound", name)
		}
	}
	if isClosed(usual) {
		t.Error("another connection was closed")
	}
}

// TestHeadsWithoutRequests opens streams with large heads. It checks that a head counts until a
// request of about its size begins, even if other requests begin. The head of a reset stream counts
// until a request of the connection has ended.
func TestHeadsWithoutRequests(t *testing.T) {
	const fields = 1000
	r := &http.Request{ProtoMajor: 2, Header: http.Header{}}
	c := newTestListener(t, 10).open("a")
	for stream := range uint32(2) {
		c.openStream()
		c.growHead(2*stream+1, int64(stream+1)*fields*fieldBytes, int(stream+1)*fields+4)
	}
	c.Begin(r)
	check.Equal(t, c.head, 3*fields*fieldBytes, "bytes after a request with a usual head")
	for i := range fields {
		r.Header.Set(fmt.Sprint("x-", i), "v")
	}
	c.Begin(r)
	c.Begin(r)
	check.Equal(t, c.head, 2*fields*fieldBytes, "bytes after two requests of the size of the first head")
	if c.endStreams(true, 3); c.head != 2*fields*fieldBytes {
		t.Errorf("%d bytes after a stream was reset whose request may be queued", c.head)
	}
	if c.End(); c.head != 0 || c.heads.Bytes() != 0 {
		t.Errorf("%d bytes after a request has ended", c.head)
	}
}
