// Package debugserver serves the page of package debug where a flag of a command says.
package debugserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weirproject/weir/debug"
)

// ErrAddress is wrapped by errors about an address that is none.
var ErrAddress = errors.New("no address")

// Address returns the address that a flag means: "" is none, and one without a host is one of this
// machine alone. The error is ErrAddress.
func Address(flag string) (string, error) {
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

// addressError is an ErrAddress that says what is wrong.
type addressError string

func (e addressError) Error() string        { return string(e) }
func (e addressError) Is(target error) bool { return target == ErrAddress }

// Serve serves the page at an address, until the function that it returns is called. That ends all
// requests and waits for the server's goroutine.
func Serve(ctx context.Context, address string) (url string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, err
	}
	server := newServer()
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

// newServer returns a server of the page that waits for no client without an end.
func newServer() *http.Server {
	return &http.Server{Handler: withoutBodies(debug.Handler()), ReadHeaderTimeout: readTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
}

// readTimeout is how long a request may take to come.
const readTimeout = 10 * time.Second

// withoutBodies has requests wait no longer for a body that does not come: net/http reads it before
// it answers.
func withoutBodies(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// Where that is not supported, neither are bodies.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
		}
		h.ServeHTTP(w, r)
	})
}
