package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/weirproject/weir/debug"
	"github.com/weirproject/weir/internal/command"
)

// debugAddress returns where --debug-addr has the page served: "" is nowhere, and an address without
// a host is one of this machine alone.
func debugAddress(flag string) (string, error) {
	if flag == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(flag)
	if err != nil {
		return "", command.Listen("debug-addr", flag, err)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", command.Usagef("--debug-addr %s: no port %q", flag, port)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// serveDebug serves the page of package debug as --debug-addr says, until the function that it
// returns is called, and tells where.
func serveDebug(ctx context.Context, flag string, stderr io.Writer) (stop func(), err error) {
	address, err := debugAddress(flag)
	if address == "" || err != nil {
		return func() {}, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--debug-addr %s: %w", flag, err)
	}
	handler := debug.Handler()
	if at, ok := listener.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		handler = localOnly(handler)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	served := make(chan struct{})
	go func() { // ends with Close
		defer close(served)
		_ = server.Serve(listener)
	}()
	fmt.Fprintf(stderr, "what the informer does is shown at http://%s/\n", listener.Addr())
	return func() {
		_ = server.Close()
		<-served
	}, nil
}

// localOnly refuses requests for another host than this machine: a page of somebody else's whose name
// leads here (DNS rebinding) must not read what is served on a loopback address.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if host != "localhost" && net.ParseIP(strings.Trim(host, "[]")) == nil {
			http.Error(w, "this page is served for this machine alone", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
