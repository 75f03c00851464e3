package debug

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// localOnly refuses requests that come by a loopback address and are for another host than this
// machine: a page of somebody else's whose name leads here (DNS rebinding) must not read what is
// served there.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if byLoopback(r) && !namesThisMachine(r.Host) {
			http.Error(w, "by this address the page is served for this machine alone: ask for an IP address or localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// byLoopback reports whether a request's connection was made to a loopback address.
func byLoopback(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	address, err := netip.ParseAddrPort(at.String())
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// namesThisMachine reports whether a Host header has localhost or an IP address, which nobody else
// can have lead here.
func namesThisMachine(header string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = header
	}
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil
}
