package hostile

import (
	"context"
	"crypto/tls"
	"maps"
	"sync"
	"testing"
	"time"
)

// attackers are the clients of one attack. Each is a goroutine that returns when the attack ends.
type attackers struct {
	victim  *victim
	from    string        // loopback address from which they connect
	lasts   time.Duration // duration of the attack
	token   string        // token of a user with permissions; empty: no credentials
	notes   *notes
	dialing chan struct{} // has an element for each attacker that is connecting
	running sync.WaitGroup
}

// maxDialing bounds how many attackers connect at the same time. With more, TLS handshakes would
// time out, and the attack would open fewer connections.
const maxDialing = 100

// begin starts an attack from an address. The attack ends when ctx ends. The caller must then call
// end.
func (k *attack) begin(t *testing.T, ctx context.Context, v *victim, from string, lasts time.Duration) *attackers {
	t.Helper()
	a := &attackers{victim: v, from: from, lasts: lasts, notes: newNotes(), dialing: make(chan struct{}, maxDialing)}
	if k.credentials {
		a.token = token(t, heavy)
	}
	k.run(a, ctx)
	return a
}

// end waits until all attackers have returned.
func (a *attackers) end() { a.running.Wait() }

// dial opens a TLS connection to the victim. It waits while maxDialing attackers are connecting.
func (a *attackers) dial(ctx context.Context, protocol string) (*tls.Conn, error) {
	select {
	case a.dialing <- struct{}{}:
		defer func() { <-a.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	conn, err := a.victim.dial(ctx, a.from, protocol)
	if err == nil {
		a.notes.connected()
	}
	return conn, err
}

// reconnectPause is the minimum time between two calls of an attacker's function. It limits the CPU
// time that the attackers themselves use.
const reconnectPause = 50 * time.Millisecond

// each starts n attackers. Each of them calls f again and again until ctx ends.
func (a *attackers) each(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	for i := range n {
		a.running.Go(func() { every(ctx, reconnectPause, func() { f(ctx, i) }) })
	}
}

func (a *attackers) once(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	for i := range n {
		a.running.Go(func() { f(ctx, i) })
	}
}

// every calls f again and again until ctx ends, at most once per period.
func every(ctx context.Context, period time.Duration, f func()) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// notes counts the responses and errors that attackers receive. It is safe for concurrent use.
type notes struct {
	mu          sync.Mutex
	connections int
	statuses    map[string]int
	ends        map[string]int // by how the server ended a stream or a connection
}

func newNotes() *notes { return &notes{statuses: map[string]int{}, ends: map[string]int{}} }

func (n *notes) connected() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.connections++
}

func (n *notes) received(status string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.statuses[status]++
}

func (n *notes) ended(how string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends[how]++
}

func (n *notes) read() (connections int, statuses, ends map[string]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.connections, maps.Clone(n.statuses), maps.Clone(n.ends)
}
