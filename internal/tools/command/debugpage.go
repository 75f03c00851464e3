package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/weirproject/weir/debug"
	"github.com/weirproject/weir/internal/serve/secure"
)

// ErrDebugAddress is matched by the errors of DebugAddress about an invalid address.
var ErrDebugAddress = errors.New("no address")

// DebugAddress returns the address to listen on for a flag's value. "" means that no page is
// served, and an address without a host means loopback. An error matches ErrDebugAddress.
func DebugAddress(flag string) (string, error) {
	if flag == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(flag)
	if wrong, ok := errors.AsType[*net.AddrError](err); ok {
		return "", addressError(wrong.Err)
	}
	if err != nil {
		return "", addressError(err.Error())
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", addressError(fmt.Sprintf("no port %q", port))
	}
	return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port), nil
}

// addressError is the reason why an address is invalid. It matches ErrDebugAddress.
type addressError string

func (e addressError) Error() string        { return string(e) }
func (e addressError) Is(target error) bool { return target == ErrDebugAddress }

// ServeDebugPage serves the page of package debug and profiles at an address, until stop is called.
// stop ends all requests and waits for the server's goroutine.
func ServeDebugPage(ctx context.Context, address string) (url string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, err
	}
	server := newDebugServer()
	served := make(chan struct{})
	go func() { // ends with Close
		defer close(served)
		_ = server.Serve(listener)
	}()
	return fmt.Sprintf("http://%s/", listener.Addr()), func() {
		_ = server.Close()
		<-served
	}, nil
}

// newDebugServer returns a server of the page and, under /debug/pprof/, of profiles. The server
// limits how long it waits for a client. It does not serve the command line, which may contain
// credentials.
func newDebugServer() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("/", debug.Handler(debug.Link{Name: "pprof", URL: "debug/pprof/"}))
	for path, profile := range map[string]http.HandlerFunc{"": pprof.Index, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		mux.Handle("GET /debug/pprof/"+path, secure.LocalOnly(limited(profile)))
	}
	return &http.Server{Handler: withoutBodies(mux), ReadHeaderTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
}

// maxProfile limits the duration of a profile, in seconds.
const maxProfile = 60

// limited refuses profiles that take too long, and profiles that a page of another web site
// requests: that page cannot read them, but they cost CPU time.
func limited(profile http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The result is 0 if it is no number. Package pprof then uses its default.
		seconds, _ := strconv.ParseFloat(r.FormValue("seconds"), 64)
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case site == "cross-site", site == "same-site":
			http.Error(w, "open this address directly, or follow the link on the debug page", http.StatusForbidden)
		case !(seconds <= maxProfile): // also if it is NaN
			http.Error(w, fmt.Sprintf("seconds must be at most %d", maxProfile), http.StatusBadRequest)
		default:
			profile(w, r)
		}
	}
}

// writeTimeout limits how long the server sends one answer. The page extends it for streams, and
// package pprof by the duration of a profile.
const writeTimeout = 30 * time.Second

// readTimeout limits how long the server waits until it has received a request.
const readTimeout = 10 * time.Second

// withoutBodies limits how long the server waits for a request's body, which the page does not use.
// net/http reads the body before it sends the answer.
func withoutBodies(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// An error is ignored: a ResponseWriter without deadlines, as in tests, has no connection to
			// wait for.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
		}
		r.Body = http.NoBody // package pprof reads a form of any size from a body
		h.ServeHTTP(w, r)
	})
}
