package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports lie below those that the kernel gives to outgoing connections, so that a port stays
// free while its server is restarted.
const (
	firstPort = 20_000
	lastPort  = 31_999
)

// portAttempts is how often a server is started on another port if another process was faster.
const portAttempts = 5

// errPortTaken is returned if another process listens on the port of a server.
var errPortTaken = errors.New("the port is taken")

// onFreePort calls start, which chooses a port, again if another process was faster to take it.
func onFreePort(start func() error) (err error) {
	for range portAttempts {
		if err = start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	return err
}

// freePort finds a port on loopback without a listener.
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

// FreeAddress returns an address of loopback without a listener. It stays free while a server there
// is restarted, unless another one takes it.
func FreeAddress() (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(loopback, strconv.Itoa(port)), nil
}

const loopback = "127.0.0.1"
