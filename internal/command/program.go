package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// Program is a program of its own that a verb of weir runs, as kubectl's plugins are: its libraries
// would double what the others take to build, and hold.
type Program struct {
	Package string // the path of its main package, whose last part is its name
}

// The programs.
var (
	Bench = Program{"github.com/weirproject/weir/bench/cmd/weir-bench"}
	Proxy = Program{"github.com/weirproject/weir/proxy/cmd/weir-proxy"}
	Serve = Program{"github.com/weirproject/weir/cmd/weir/weir-serve"}
)

// Name returns what the program is called.
func (p Program) Name() string { return path.Base(p.Package) }

// Find looks for the program beside this one. If it is not there and the working directory is in
// the checkout that this program was built from, Find builds it there, and tells log so; that can
// take minutes and ends with ctx. Anywhere else it looks in the path. The caller calls done, which
// removes what was built.
func (p Program) Find(ctx context.Context, log io.Writer) (file string, done func(), err error) {
	name := p.Name()
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && !info.IsDir() {
			return beside, func() {}, nil
		}
	}
	source, ok := checkout()
	if !ok {
		if file, err := exec.LookPath(name); err == nil {
			return file, func() {}, nil
		}
		return "", nil, fmt.Errorf("%s is neither beside this command nor in the path; install it with: go install %s@latest", name, p.Package)
	}
	fmt.Fprintf(log, "building %s from %s\n", p.Name(), source)
	dir, err := os.MkdirTemp("", p.Name()+"-")
	if err != nil {
		return "", nil, err
	}
	done = func() { os.RemoveAll(dir) }
	file = filepath.Join(dir, name)
	build := exec.CommandContext(ctx, "go", "build", "-o", file, p.Package)
	build.Dir = source
	if said, err := build.CombinedOutput(); err != nil {
		done()
		return "", nil, fmt.Errorf("build %s: %w", p.Name(), errors.Join(err, errors.New(strings.TrimSpace(string(said)))))
	}
	return file, done, nil
}

// executable returns this program's file, behind the links that lead to it: package managers link
// the one that they were asked for alone.
func executable() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(self)
}

// Exec runs a program that Find has found, with this process's standard input, and blocks until it
// has ended. Interrupts, SIGTERM, SIGHUP and SIGQUIT to this process are passed to the program; the
// third one kills it. On Linux the program gets SIGTERM, perhaps several times, if this process is
// killed. The error is an ExitCode if the program failed, nil if it was interrupted and ended in
// good order.
//
// The terminal sends interrupts to the foreground process group. A program that reads the terminal
// must be in that group, and gets the first interrupt from the terminal. Others get a group of
// their own, where the system has groups, so that each signal reaches them once.
func Exec(ctx context.Context, file string, args []string, stdout, stderr io.Writer) error {
	signals := make(chan os.Signal, 4) // more than people send before they give up
	signal.Notify(signals, handedOn()...)
	defer signal.Stop(signals)
	if err := ctx.Err(); err != nil {
		return err
	}
	child := exec.Command(file, args...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, stdout, stderr
	reads := term.IsTerminal(int(os.Stdin.Fd()))
	child.SysProcAttr = attributes(!reads)
	// Linux takes the end of the thread that starts the program for that of the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }() // ends with the program
	for got := 0; ; {
		select {
		case s := <-signals:
			switch got++; {
			case got > 2:
				_ = child.Process.Kill() // or it has ended
			case got > 1 || s != os.Interrupt || !reads:
				handOn(child, s)
			}
		case err := <-ended:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
				return ExitCode(exit.ExitCode())
			}
			return err
		}
	}
}

// handedOn returns the signals that Exec hands on. Those of a terminal that goes are not among them
// if this process was told to ignore them, as by nohup.
func handedOn() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}
