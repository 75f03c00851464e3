package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weirproject/weir/debug"
)

// ErrDebugAddress is wrapped by errors about an invalid address.
var ErrDebugAddress = errors.New("no address")

// DebugAddress returns the address for the value of a flag: "" means none, and one without a host
// means loopback. The error is ErrDebugAddress.
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
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// addressError is an ErrDebugAddress with a reason.
type addressError string

func (e addressError) Error() string        { return string(e) }
func (e addressError) Is(target error) bool { return target == ErrDebugAddress }

// ServeDebugPage serves the page of package debug at an address, until stop is called. That ends
// all requests and waits for the server's goroutine.
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

// newDebugServer returns a server of the page that limits how long it waits for a client.
func newDebugServer() *http.Server {
	return &http.Server{Handler: withoutBodies(debug.Handler()), ReadHeaderTimeout: readTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
}

// readTimeout limits the time to receive a request.
const readTimeout = 10 * time.Second

// withoutBodies limits the wait for a body that does not arrive: net/http reads it before it
// answers.
func withoutBodies(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// A ResponseWriter that does not support deadlines has no bodies.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
		}
		h.ServeHTTP(w, r)
	})
}
