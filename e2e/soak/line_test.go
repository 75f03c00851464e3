package soak

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// line is the network between clients and servers. All connections of the clients go through the
// line's relays. While the line is bad, the relays cut or stall each connection after a random
// time. A line is safe for concurrent use.
type line struct {
	seed uint64
	// patience bounds the time until a bad line disturbs a connection, and the duration of a stall.
	patience time.Duration

	mu      sync.Mutex
	bad     bool
	changed chan struct{} // closed when bad changes
	relays  []*relay
}

func newLine(seed uint64, patience time.Duration) *line {
	return &line{seed: seed, patience: patience, changed: make(chan struct{})}
}

// set makes the line bad or good. A good line immediately forwards stalled data.
func (l *line) set(bad bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bad != bad {
		l.bad = bad
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// state returns whether the line is bad, and a channel that is closed when that changes.
func (l *line) state() (bad bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad, l.changed
}

// server returns the name of the server to which a client's connection is relayed, for the log.
func (l *line) server(client net.Addr) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.relays {
		if i := r.target(client); i >= 0 {
			return fmt.Sprintf("server %d", i+1)
		}
	}
	return "no server"
}

// targets returns, for each of the first n targets, whether a relay with this name has a connection
// to it.
func (l *line) targets(name string, n int) []bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]bool, n)
	for _, r := range l.relays {
		if r.name == name {
			r.note(out)
		}
	}
	return out
}

// close closes all relays, and waits for their goroutines.
func (l *line) close() {
	l.mu.Lock()
	relays := l.relays
	l.mu.Unlock()
	for _, r := range relays {
		r.close()
	}
}

// relay forwards TCP connections. It forwards each one to a random target that accepts it. Its
// goroutines end after close: one accepts connections, and three serve each connection.
type relay struct {
	line     *line
	name     string
	listener net.Listener
	targets  []string
	running  sync.WaitGroup

	mu     sync.Mutex
	rand   *rand.Rand
	closed bool
	links  map[*link]struct{}
}

// relay starts a relay. Its name and the line's seed determine the faults of its connections.
func (l *line) relay(name string, targets ...string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	r := &relay{line: l, name: name, listener: listener, targets: targets, rand: rand.New(rand.NewPCG(l.seed, h.Sum64())), links: map[*link]struct{}{}}
	l.mu.Lock()
	l.relays = append(l.relays, r)
	l.mu.Unlock()
	r.running.Go(r.accept)
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.pass(conn) })
	}
}

// dial connects to a random target. If that fails, it tries the other targets.
func (r *relay) dial() (net.Conn, error) {
	first := r.intN(len(r.targets))
	var err error
	for i := range r.targets {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", r.targets[(first+i)%len(r.targets)], time.Second); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// target returns the index of the target to which a client's connection is relayed. It returns -1
// if the connection is not of this relay.
func (r *relay) target(client net.Addr) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.links {
		if k.client.RemoteAddr().String() == client.String() {
			return slices.Index(r.targets, k.server.RemoteAddr().String())
		}
	}
	return -1
}

// note sets targets[i] if the relay has a connection to target i.
func (r *relay) note(targets []bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.links {
		if i := slices.Index(r.targets, k.server.RemoteAddr().String()); i >= 0 && i < len(targets) {
			targets[i] = true
		}
	}
}

func (r *relay) intN(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.IntN(n)
}

// patience returns a random duration below the line's patience.
func (r *relay) patience() time.Duration { return time.Duration(r.intN(int(r.line.patience))) }

// pass relays one connection until it ends.
func (r *relay) pass(client net.Conn) {
	server, err := r.dial()
	if err != nil {
		_ = client.Close()
		return
	}
	k := &link{client: client, server: server, done: make(chan struct{}), flows: make(chan struct{})}
	close(k.flows)
	r.mu.Lock()
	if r.closed {
		k.cut(false)
	}
	r.links[k] = struct{}{}
	r.mu.Unlock()
	var pumps sync.WaitGroup
	pumps.Go(func() { k.pump(server, client) })
	pumps.Go(func() { k.pump(client, server) })
	r.befall(k)
	pumps.Wait()
	r.mu.Lock()
	delete(r.links, k)
	r.mu.Unlock()
}

// befall cuts or stalls a connection at random times while the line is bad. It returns when the
// connection has ended.
func (r *relay) befall(k *link) {
	for {
		bad, changed := r.line.state()
		var fate <-chan time.Time
		if bad {
			fate = time.After(r.patience())
		}
		select {
		case <-k.done:
			return
		case <-changed:
		case <-fate:
			if r.intN(2) == 0 {
				k.cut(r.intN(2) == 0)
				return
			}
			k.stall()
			select {
			case <-k.done:
			case <-changed:
			case <-time.After(r.patience()):
				if r.intN(2) == 0 {
					k.cut(r.intN(2) == 0)
				}
			}
			k.resume()
		}
	}
}

// close closes the relay and its connections, and waits for its goroutines.
func (r *relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for k := range r.links {
		k.cut(false)
	}
	r.mu.Unlock()
	r.running.Wait()
}

// link is one relayed connection. It is safe for concurrent use.
type link struct {
	client, server net.Conn
	once           sync.Once
	done           chan struct{} // closed by cut

	mu    sync.Mutex
	flows chan struct{} // closed unless the link is stalled
}

// pump copies the data of one direction. While the link is stalled, pump keeps the bytes that it
// has read, and reads no more.
func (k *link) pump(to, from net.Conn) {
	defer k.cut(false)
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			k.mu.Lock()
			flows := k.flows
			k.mu.Unlock()
			select {
			case <-flows:
			case <-k.done:
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (k *link) stall() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flows = make(chan struct{})
}

func (k *link) resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.flows)
}

// cut closes both sides of the connection, with a TCP reset or normally.
func (k *link) cut(reset bool) {
	k.once.Do(func() {
		close(k.done)
		for _, conn := range []net.Conn{k.client, k.server} {
			if tcp, ok := conn.(*net.TCPConn); ok && reset {
				_ = tcp.SetLinger(0)
			}
			_ = conn.(io.Closer).Close()
		}
	})
}
