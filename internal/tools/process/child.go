// Package process measures the resource usage of this process, and runs child processes that end no
// later than this process. A child runs this executable or another program, such as the embedded
// API server.
//
// The parent starts a child with a role and a specification. The child reads the specification from
// the first line of its standard input, and answers with lines of JSON on its standard output. The
// child's standard input stays open until the parent closes it or dies; then the child ends too.
// Only the parent handles interrupts.
package process

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"time"
)

// Verb is the hidden subcommand with which a program runs itself as a child.
const Verb = "child"

// ErrExited is returned by Receive if the child has ended without sending another line.
var ErrExited = errors.New("process ended early")

// grace limits how long a child may take to end cleanly. Then the child is killed.
const grace = 3 * time.Second

// maxLine limits a line of JSON, in bytes.
const maxLine = 1 << 20

// Become runs serve and then ends this process, if the process was started as a child. Otherwise it
// returns. A TestMain calls it, because the children of tests run the test's own executable.
func Become(serve func(role string) error) {
	if len(os.Args) < 3 || os.Args[1] != Verb {
		return
	}
	if err := serve(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Child is a running child process. Its methods, except Stop, are not safe for concurrent use.
type Child struct {
	role  string
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner

	stderr *Tail
	stop   sync.Once
	err    error
}

// Start starts this executable as a child. args follow the role on the child's command line, and
// env is added to its environment. The child ends when ctx ends, but the caller must call Stop in
// any case.
func Start(ctx context.Context, role string, args, env []string, spec any) (*Child, error) {
	return start(ctx, "", role, args, env, spec)
}

// start starts the program file as a child, or this executable if file is empty.
func start(ctx context.Context, file, role string, args, env []string, spec any) (*Child, error) {
	cmd := exec.Command(file)
	if file == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd = exec.Command(self)
		// Use this process's own name: a test binary with the name of a command acts as that command.
		cmd.Args = []string{os.Args[0]}
	}
	line, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	p := &Child{role: role, cmd: cmd, stderr: &Tail{}}
	p.cmd.Args = append(append(p.cmd.Args, Verb, role), args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p.stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	p.lines = bufio.NewScanner(stdout)
	p.lines.Buffer(nil, maxLine)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	if _, err := stdin.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("%s: %w", role, p.failure(err))
	}
	context.AfterFunc(ctx, func() { p.stop.Do(p.end) })
	return p, nil
}

// Receive waits for the child's next line and decodes it into v. If the child ends instead, the
// error contains the last line of the child's standard error.
func (p *Child) Receive(v any) error {
	if p.lines.Scan() {
		if err := json.Unmarshal(p.lines.Bytes(), v); err != nil {
			return fmt.Errorf("%s: %w in %.80q", p.role, err, p.lines.Bytes())
		}
		return nil
	}
	err := cmp.Or(p.lines.Err(), ErrExited)
	return fmt.Errorf("%s: %w", p.role, p.failure(err))
}

// failure stops the child, and returns err with the last line of the child's standard error.
func (p *Child) failure(err error) error {
	p.stop.Do(p.end)
	if said := p.stderr.Last(); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// Stop ends the child, cleanly if possible, and waits until it has ended. It may be called more
// than once. It returns an error if the child did not end cleanly.
func (p *Child) Stop() error {
	p.stop.Do(p.end)
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", p.role, p.err, p.stderr.Last())
	}
	return nil
}

func (p *Child) end() {
	p.stdin.Close()
	defer time.AfterFunc(grace, func() { p.cmd.Process.Kill() }).Stop()
	p.err = p.cmd.Wait()
}

// Serve runs in the child. It reads the specification into spec and runs f until f returns. f's
// context ends when ctx ends, or when the parent has ended or has closed the child's input. send
// writes a line to the parent; it is safe for concurrent use.
func Serve(ctx context.Context, in io.Reader, out io.Writer, spec any, f func(ctx context.Context, send func(any) error) error) error {
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the specification: %w", err)
	}
	if err := json.Unmarshal(line, spec); err != nil {
		return fmt.Errorf("read the specification: %w", err)
	}
	signal.Ignore(os.Interrupt)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The goroutine ends when the parent ends, or with this process.
	go func() {
		io.Copy(io.Discard, r)
		cancel()
	}()
	var mu sync.Mutex
	return f(ctx, func(v any) error {
		mu.Lock()
		defer mu.Unlock()
		return json.NewEncoder(out).Encode(v)
	})
}

// Tail is a writer that stores the last 4 KiB of its input. The zero value is empty. Tail is safe
// for concurrent use.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4 << 10

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// Last returns the last nonempty line of the stored input, without the prefix "error: " that
// commands write. If the input contains a panic or a fatal error, Last returns the line that
// reports it.
func (t *Tail) Last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, crash := range []string{"panic: ", "fatal error: "} {
		if i := bytes.LastIndex(append([]byte("\n"), t.buf...), []byte("\n"+crash)); i >= 0 {
			line, _, _ := bytes.Cut(t.buf[i:], []byte("\n"))
			return string(line)
		}
	}
	lines := bytes.Split(bytes.TrimSpace(t.buf), []byte("\n"))
	return strings.TrimPrefix(string(lines[len(lines)-1]), "error: ")
}
