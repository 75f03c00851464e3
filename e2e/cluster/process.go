package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Program is a child process of this process: a server of the cluster, or a client program of it.
// On Linux, the kernel kills it when this process dies.
type Program struct {
	name    string
	logPath string
	pid     int
	killed  atomic.Bool   // set before Terminate or Stop ends the process
	exited  chan struct{} // closed when the process has exited
	err     error         // from exec.Cmd.Wait; valid after exited is closed
}

// StartProgram starts the program at path. It adds env to this process's environment, and appends
// the program's output to the file at logPath. The caller must call Stop.
func StartProgram(path string, args, env []string, logPath string) (*Program, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	p := &Program{name: filepath.Base(path), logPath: logPath, exited: make(chan struct{})}

	started := make(chan error)
	go func() {
		// The kernel kills the child when the thread that started the child ends. LockOSThread keeps that
		// thread until the child has exited.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	return p, nil
}

// startServer starts a program as StartProgram does. It then calls the function ready, which must
// wait until the program serves. If ready returns an error, startServer kills the process and
// returns the error. The error wraps errPortTaken if another process listens on the port.
func startServer(path string, args, env []string, logPath string, ready func(*Program) error) (*Program, error) {
	p, err := StartProgram(path, args, env, logPath)
	if err != nil {
		return nil, err
	}
	if err := ready(p); err != nil {
		p.Stop()
		if strings.Contains(p.LastLines(), "address already in use") {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return nil, err
	}
	return p, nil
}

// Err returns nil while the program runs. After the program has exited, Err returns an error with
// the reason and the last lines of the log. Err is safe for concurrent use.
func (p *Program) Err() error {
	select {
	case <-p.exited:
		return p.failure()
	default:
		return nil
	}
}

// PID returns the program's process ID.
func (p *Program) PID() int { return p.pid }

// Stop kills the program and its children, and waits until the program has exited.
func (p *Program) Stop() {
	p.killed.Store(true)
	select {
	case <-p.exited:
		return
	default:
	}
	// The program leads its own process group. An error means that it has exited.
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.exited
}

// Terminate sends SIGTERM to the program and waits until it has exited. It returns an error if the
// program exited with an error. If ctx ends first, Terminate returns the error of ctx, and the
// program may continue to run.
func (p *Program) Terminate(ctx context.Context) error {
	p.killed.Store(true)
	_ = syscall.Kill(p.pid, syscall.SIGTERM) // an error means that it has exited
	select {
	case <-p.exited:
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.err != nil {
		return p.failure()
	}
	return nil
}

// pause stops the process and its children with SIGSTOP. On Linux, it waits until the process has
// stopped, because a thread on another CPU runs for a moment after the signal. If the process has
// exited, pause is a no-op.
func (p *Program) pause() {
	if err := syscall.Kill(-p.pid, syscall.SIGSTOP); err == nil {
		awaitStop(p.pid)
	}
}

// resume continues the process and its children. If the process has exited, resume is a no-op.
func (p *Program) resume() { _ = syscall.Kill(-p.pid, syscall.SIGCONT) }

// failure returns an error that describes the exit of the process and contains the last lines of
// its log.
func (p *Program) failure() error {
	how := "without an error"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s exited (%s); its log %s ends:\n%s", p.name, how, p.logPath, p.LastLines())
}

// LastLines returns the last lines of the program's log. If the log cannot be read, it returns the
// error's text.
func (p *Program) LastLines() string {
	const lines, size = 15, 16 << 10
	raw, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	raw = bytes.TrimSpace(raw[max(0, len(raw)-size):])
	all := strings.Split(string(raw), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// waitReady waits until a GET of url returns 200. It returns an error if the process exits, ctx
// ends, or startTimeout passes first. token is optional.
func (p *Program) waitReady(ctx context.Context, client *http.Client, url, token string) error {
	var last string
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		if err := p.Err(); err != nil {
			return false, err
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		if err != nil {
			last = err.Error()
			return false, nil
		}
		defer resp.Body.Close()
		last = resp.Status
		return resp.StatusCode == http.StatusOK, nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("waiting for %s: %w", p.name, ctx.Err())
	}
	if wait.Interrupted(err) {
		return fmt.Errorf("%s is not ready (%s): %w; its log %s ends:\n%s", p.name, last, err, p.logPath, p.LastLines())
	}
	return err
}
