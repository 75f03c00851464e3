package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports are below the range from which the kernel assigns ports to outgoing connections. A port
// therefore usually stays free while its server restarts.
const (
	firstPort = 20_000
	lastPort  = 31_999
)

// portAttempts bounds how many ports are tried for a server. A try fails if another process has
// started to listen on the port after freePort found the port free.
const portAttempts = 5

// errPortTaken is returned if another process listens on the port of a server.
var errPortTaken = errors.New("the port is taken")

// onFreePort calls start, which chooses a port and starts a server. It calls start again while the
// error is errPortTaken, up to portAttempts times.
func onFreePort(start func() error) (err error) {
	for range portAttempts {
		if err = start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	return err
}

// freePort returns a port on loopback that no process listens on.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("finding a free port: %w", err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("finding a free port: %w", last)
}

// FreeAddress returns a loopback address on which no process listens. The kernel does not assign
// the address's port to outgoing connections, so the port usually stays free while a server
// restarts.
func FreeAddress() (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(loopback, strconv.Itoa(port)), nil
}

const loopback = "127.0.0.1"
