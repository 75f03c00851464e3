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
// First, it refuses a request over a connection to a loopback address if the Host header contains
// neither an IP address nor localhost. So a web page whose own host name resolves to a loopback
// address (DNS rebinding) cannot read responses of next. Second, it refuses a request that may
// change state if a web page of another origin has sent it ([http.CrossOriginProtection]).
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
