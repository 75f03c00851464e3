package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
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
	server := &http.Server{Handler: debug.Handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
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
