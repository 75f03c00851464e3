package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/child"
)

// stopTimeout is what a proxy gets to end in good order.
const stopTimeout = 10 * time.Second

// maxConnections is how many a proxy takes: each watcher has one for itself.
const maxConnections = 100_000

// proxy is a running weir-proxy.
type proxy struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	said   *child.Tail
	config *rest.Config
}

// startProxy starts a proxy that holds pods, with more flags, and returns when it listens.
func startProxy(ctx context.Context, path string, k *kubeconfig, more ...string) (*proxy, error) {
	running, cancel := context.WithCancel(ctx)
	p := &proxy{cancel: cancel, said: &child.Tail{}}
	flags := append([]string{"--kubeconfig", k.file(upstreamFile), "--resources", "pods", "--max-connections", strconv.Itoa(maxConnections),
		"--write-kubeconfig", k.file(proxyFile)}, more...)
	p.cmd = exec.CommandContext(running, path, flags...)
	p.cmd.Stderr = p.said
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = stopTimeout
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	timer := time.AfterFunc(startTimeout, cancel)
	defer timer.Stop()
	// The line has its address, which its kubeconfig has too.
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(p.failure(errors.New("the proxy did not start")), p.stop())
	}
	if p.config, err = k.ofProxy(); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// gauge reads what the proxy uses.
func (p *proxy) gauge(t *target) gauge {
	g := procGauge{process(p.cmd.Process.Pid)}
	if _, err := g.process.cpu(); err != nil { // a system without /proc
		return &metricsGauge{target: t}
	}
	return g
}

// failure puts what the proxy said last into an error.
func (p *proxy) failure(err error) error {
	if said := p.said.Last(); said != "" {
		return fmt.Errorf("%w; the proxy said last: %s", err, said)
	}
	return err
}

// stop ends the proxy. The error says how it ended, if not well.
func (p *proxy) stop() error {
	p.cancel()
	err := p.cmd.Wait()
	if errors.Is(err, context.Canceled) { // we did that
		return nil
	}
	return err
}
