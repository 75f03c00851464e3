package secure

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// LocalOnly protects a handler without authentication from web pages in a browser on the same
// machine. It answers 403 to two kinds of requests and passes all other requests to next.
//
// If the connection was made to a loopback address, the Host header must contain an IP address or
// localhost. So a web page whose own host name resolves to a loopback address (DNS rebinding)
// cannot read responses of next. A request that may change state must not come from a web page of
// another origin ([http.CrossOriginProtection]).
func LocalOnly(next http.Handler) http.Handler {
	next = new(http.CrossOriginProtection).Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if byLoopback(r) && !namesThisMachine(r.Host) {
			http.Error(w, "this address serves only this machine: use an IP address or localhost", http.StatusForbidden)
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

// namesThisMachine reports whether a Host header contains localhost or an IP address. A web page
// that uses DNS rebinding sends its own host name instead.
func namesThisMachine(header string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = header
	}
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil
}
