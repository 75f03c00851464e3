package proxy

import (
	"runtime"
	"testing"
	"weak"

	"github.com/weirproject/weir/apiserver"
)

// TestBrokenConnectionIsReleased: what a connection has in memory is released when it ends, also if
// a response was not read by then.
func TestBrokenConnectionIsReleased(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	tp := startProxy(t, u, Options{})
	client := tp.dialUnread()
	client.request("", "/livez")
	l := tp.server.listener
	l.mu.Lock()
	connection := weak.Make(l.unknown.Front().Value.(*connection))
	l.mu.Unlock()
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	tp.until("the memory of the connection is released", func() bool {
		runtime.GC()
		return connection.Value() == nil
	})
}
