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

// process is a child process of this process. On Linux, the kernel kills it when this process dies.
type process struct {
	name    string
	logPath string
	pid     int
	killed  atomic.Bool   // set before terminate or kill ends the process
	exited  chan struct{} // closed when the process has exited
	err     error         // from exec.Cmd.Wait; valid after exited is closed
}

// startProcess starts the program at path. It appends the program's output to the file at logPath.
func startProcess(path string, args, env []string, logPath string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	p := &process{name: filepath.Base(path), logPath: logPath, exited: make(chan struct{})}

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

// startServer starts a program as startProcess does. It then calls the function ready, which must
// wait until the program serves. If ready returns an error, startServer kills the process and
// returns the error. The error wraps errPortTaken if another process listens on the port.
func startServer(path string, args, env []string, logPath string, ready func(*process) error) (*process, error) {
	p, err := startProcess(path, args, env, logPath)
	if err != nil {
		return nil, err
	}
	if err := ready(p); err != nil {
		p.kill()
		if strings.Contains(p.lastLines(), "address already in use") {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return nil, err
	}
	return p, nil
}

// kill kills the process and its children, and waits until the process has exited.
func (p *process) kill() {
	p.killed.Store(true)
	select {
	case <-p.exited:
		return
	default:
	}
	// The process leads its own process group. An error means that it has exited.
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.exited
}

// terminate sends SIGTERM and waits until the process has exited. It returns an error if the
// process exited with an error, or if ctx ended first.
func (p *process) terminate(ctx context.Context) error {
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
func (p *process) pause() {
	if err := syscall.Kill(-p.pid, syscall.SIGSTOP); err == nil {
		awaitStop(p.pid)
	}
}

// resume continues the process and its children. If the process has exited, resume is a no-op.
func (p *process) resume() { _ = syscall.Kill(-p.pid, syscall.SIGCONT) }

// failure returns an error that describes the exit of the process and contains the last lines of
// its log.
func (p *process) failure() error {
	how := "without an error"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s exited (%s); its log %s ends:\n%s", p.name, how, p.logPath, p.lastLines())
}

// lastLines returns the last lines of the process's log. If the log cannot be read, it returns the
// error's text.
func (p *process) lastLines() string {
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
func (p *process) waitReady(ctx context.Context, client *http.Client, url, token string) error {
	var last string
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.exited:
			return false, p.failure()
		default:
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
		return fmt.Errorf("%s is not ready (%s): %w; its log %s ends:\n%s", p.name, last, err, p.logPath, p.lastLines())
	}
	return err
}
