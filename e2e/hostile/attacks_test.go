package hostile

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/net/http2"
)

type attack struct {
	name string
	// credentials makes the attackers send the token of a user who may read pods and ConfigMaps.
	credentials bool
	statuses    []int    // statuses that attackers may receive
	more        []string // arguments of the proxy in addition to those of deploy/base
	run         func(a *attackers, ctx context.Context)
}

const (
	manyStreams = 240
	// headFields is the number of small fields that fit into the head of a request.
	headFields = 5500
)

var attacks = []attack{
	{name: "unread-livez", statuses: []int{200, 429, 431, 503}, run: func(a *attackers, ctx context.Context) {
		a.unread(ctx, 10, manyStreams, head("GET", "/livez", manyFields(headFields)...))
	}},
	{name: "unread-watches", statuses: []int{401, 403, 429, 431, 503}, run: func(a *attackers, ctx context.Context) {
		a.unread(ctx, 2, manyStreams, head("GET", "/api/v1/pods?watch=1", manyFields(headFields)...))
	}},
	{name: "unread-errors", statuses: []int{400, 401, 403, 414, 429, 431, 503}, run: func(a *attackers, ctx context.Context) {
		fields := manyFields(headFields)
		a.unread(ctx, 3, manyStreams, head("GET", "/api/v1/pods?x="+string(make64K()), fields[:3000]...))
		a.unread(ctx, 3, manyStreams, head("GET", "/api/v1/pods?resourceVersion=0", append(fields, bearer("made-up"))...))
		a.unread(ctx, 3, manyStreams, head("GET", "x:y", fields...))
	}},
	{name: "unread-invalid", statuses: []int{400, 429, 431}, run: func(a *attackers, ctx context.Context) {
		a.unread(ctx, 10, manyStreams, head("GET", "/livez", append(manyFields(headFields), field{"te", "x"})...))
	}},
	{name: "unread-refusals", statuses: []int{401, 403, 429, 503}, run: (*attackers).unreadRefusals},
	{name: "held-connections", statuses: []int{200, 429, 503}, run: (*attackers).heldConnections},
	{name: "silent-connections", run: (*attackers).silentConnections},
	{name: "unfinished-heads", statuses: []int{400, 408, 429, 431}, run: (*attackers).unfinishedHeads},
	{name: "unfinished-bodies", statuses: []int{400, 401, 403, 408, 415, 429, 503}, run: (*attackers).unfinishedBodies},
	{name: "slow-bytes", statuses: []int{200, 400, 401, 403, 408, 415, 429, 431, 503}, run: (*attackers).slowBytes},
	{name: "resets", statuses: []int{200, 401, 403, 429, 503}, run: (*attackers).resets},
	{name: "continuations", statuses: []int{431}, run: (*attackers).continuations},
	{name: "made-up-tokens", statuses: []int{401, 403, 429, 503}, run: (*attackers).madeUpTokens},
	{name: "unread-gets", credentials: true, statuses: []int{200, 429, 503}, more: []string{"--resources=configmaps"}, run: func(a *attackers, ctx context.Context) {
		a.unread(ctx, 5, manyStreams, head("GET", "/api/v1/namespaces/default/configmaps/big?resourceVersion=0", bearer(a.token)))
	}},
	{name: "unread-lists", credentials: true, statuses: []int{200, 429, 503}, run: func(a *attackers, ctx context.Context) {
		a.unread(ctx, 5, manyStreams, head("GET", "/api/v1/pods?resourceVersion=0", bearer(a.token)))
	}},
	{name: "unread-own-watches", credentials: true, statuses: []int{200, 429, 431, 503}, run: func(a *attackers, ctx context.Context) {
		a.unread(ctx, 5, manyStreams, head("GET", "/api/v1/pods?watch=1&resourceVersion=0", append(manyFields(headFields), bearer(a.token))...))
		a.churn(ctx)
	}},
}

// unread opens connections whose HTTP/2 window is 0, so that no response body can be sent. On each
// connection it sends the given number of requests with the same head.
func (a *attackers) unread(ctx context.Context, connections, streams int, block []byte) {
	a.each(ctx, connections, func(ctx context.Context, _ int) {
		c, err := a.openHTTP2(ctx, zeroWindow)
		if err != nil {
			return
		}
		defer c.close()
		for range streams {
			if _, err := c.request(block, true); err != nil {
				return
			}
		}
		c.wait(ctx)
	})
}

// unreadRefusals sends 960 anonymous requests in each period, on four new connections whose window
// is 0. The bodies of the 403s stay unread.
func (a *attackers) unreadRefusals(ctx context.Context) {
	period := min(20*time.Second, a.lasts/2)
	block := head("GET", "/api/v1/namespaces/kube-system/secrets")
	a.once(ctx, 4, func(ctx context.Context, _ int) {
		every(ctx, period, func() {
			// Do not close the connection: it stays open until the attack ends or the server closes it.
			c, err := a.openHTTP2(ctx, zeroWindow)
			for range manyStreams {
				if err == nil {
					_, err = c.request(block, true)
				}
			}
		})
	})
}

// heldConnections opens connectionLimit connections. Each has one response whose body stays unread.
func (a *attackers) heldConnections(ctx context.Context) {
	block := head("GET", "/livez")
	a.each(ctx, connectionLimit(), func(ctx context.Context, _ int) {
		c, err := a.openHTTP2(ctx, zeroWindow)
		if err != nil {
			return
		}
		defer c.close()
		if _, err := c.request(block, true); err == nil {
			c.wait(ctx)
		}
	})
}

// unfinishedBodies opens streams, and sends only a part of each request body.
func (a *attackers) unfinishedBodies(ctx context.Context) {
	block := head("POST", "/api/v1/namespaces/default/pods", field{"content-type", "application/json"})
	// The parts of all streams of a connection together fit into the server's window.
	part := make([]byte, 1<<10)
	a.each(ctx, 10, func(ctx context.Context, _ int) {
		c, err := a.openHTTP2(ctx)
		if err != nil {
			return
		}
		defer c.close()
		for range manyStreams {
			stream, err := c.request(block, false)
			if err == nil {
				err = c.write(func(f *http2.Framer) error { return f.WriteData(stream, false, part) })
			}
			if err != nil {
				return
			}
		}
		c.wait(ctx)
	})
}

// resets opens streams on two connections, and resets each stream immediately.
func (a *attackers) resets(ctx context.Context) {
	block := head("GET", "/api/v1/pods", bearer("made-up"))
	a.each(ctx, 2, func(ctx context.Context, _ int) {
		c, err := a.openHTTP2(ctx)
		if err != nil {
			return
		}
		defer c.close()
		for {
			stream, err := c.request(block, true)
			if err == nil {
				err = c.write(func(f *http2.Framer) error { return f.WriteRSTStream(stream, http2.ErrCodeCancel) })
			}
			if err != nil {
				return
			}
		}
	})
}

// continuations sends request heads that do not end, in frames with one field each.
func (a *attackers) continuations(ctx context.Context) {
	first := head("GET", "/livez")
	a.each(ctx, 20, func(ctx context.Context, _ int) {
		c, err := a.openHTTP2(ctx)
		if err != nil {
			return
		}
		defer c.close()
		err = c.write(func(f *http2.Framer) error {
			err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first})
			for i := 0; err == nil; i++ {
				err = f.WriteContinuation(1, false, oneField(i))
			}
			return err
		})
		if err == nil {
			c.wait(ctx)
		}
	})
}

// madeUpTokens sends requests with invalid tokens. Each request has a different token.
func (a *attackers) madeUpTokens(ctx context.Context) {
	a.each(ctx, 50, func(ctx context.Context, i int) {
		c, err := a.openHTTP2(ctx)
		if err != nil {
			return
		}
		defer c.close()
		for n := range 200 {
			text := fmt.Sprintf("made-up-%d-%d-%d", i, n, time.Now().UnixNano())
			if _, err := c.request(head("GET", "/api/v1/pods?resourceVersion=0", bearer(text)), true); err != nil {
				return
			}
		}
		c.wait(ctx)
	})
}

func oneField(i int) []byte {
	name := "f" + strconv.Itoa(i%1000)
	return append(append([]byte{0, byte(len(name))}, name...), 1, 'v')
}

// make64K returns 65 KiB of text, which is longer than the proxy permits a query to be.
func make64K() []byte {
	out := make([]byte, 65<<10)
	for i := range out {
		out[i] = 'a'
	}
	return out
}
