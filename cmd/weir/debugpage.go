package main

import (
	"context"
	"fmt"
	"io"

	"github.com/weirproject/weir/internal/tools/command"
)

// debugAddress returns the address of --debug-addr; "" means none.
func debugAddress(flag string) (string, error) {
	address, err := command.DebugAddress(flag)
	if err != nil {
		return "", command.Usagef("--debug-addr %s: %w", flag, err)
	}
	return address, nil
}

// serveDebug serves the page of package debug at the address of --debug-addr, until stop is called,
// and prints the address.
func serveDebug(ctx context.Context, flag string, stderr io.Writer) (stop func(), err error) {
	address, err := debugAddress(flag)
	if address == "" || err != nil {
		return func() {}, err
	}
	url, stop, err := command.ServeDebugPage(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("--debug-addr %s: %w", flag, err)
	}
	fmt.Fprintf(stderr, "what the informer does is shown at %s\n", url)
	return stop, nil
}
