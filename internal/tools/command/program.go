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

// Program is a separate program that a verb of weir runs, like kubectl runs its plugins. It is
// separate because its libraries would double the build time and the memory of weir's other verbs.
type Program struct {
	Package string // the path of its main package; its last element is the name
}

// The programs that verbs of weir run.
var (
	Bench = Program{"github.com/weirproject/weir/measure/bench/cmd/weir-bench"}
	Proxy = Program{"github.com/weirproject/weir/proxy/cmd/weir-proxy"}
	Serve = Program{"github.com/weirproject/weir/cmd/weir/weir-serve"}
)

// Name returns the program's name.
func (p Program) Name() string { return path.Base(p.Package) }

// Find looks for the program in the directory of this executable. If the program is missing there,
// Find builds it, but only if the working directory is in the checkout from which this executable
// was built. In any other directory, Find searches the PATH instead. A build is reported on log; it
// can take minutes, and ends with ctx. The caller calls done, which removes a program that Find
// built.
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
		return "", nil, fmt.Errorf("%s is neither next to this command nor in the path; install it in a checkout of weir with: go install .%s",
			name, strings.TrimPrefix(p.Package, "github.com/weirproject/weir"))
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

// executable returns the file of this executable, after following links: a package manager may link
// weir, but not the programs next to it.
func executable() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(self)
}

// Exec runs a program that Find returned, with this process's standard input, and blocks until the
// program has ended. It passes interrupts, SIGTERM, SIGHUP and SIGQUIT to the program; the third
// signal kills the program. On Linux the program receives SIGTERM, perhaps several times, if this
// process is killed. The error is an ExitCode if the program returned an exit code other than 0,
// and nil if it was interrupted and ended cleanly.
//
// A terminal sends interrupts to its foreground process group. A program that reads the terminal
// must be in that group, so the terminal sends it the interrupts. If the first signal is an
// interrupt, Exec then does not pass it on. Any other program gets a separate group, if the system
// has groups, so that it receives each signal once.
func Exec(ctx context.Context, file string, args []string, stdout, stderr io.Writer) error {
	signals := make(chan os.Signal, 4) // capacity: more signals than users send before they give up
	signal.Notify(signals, handedOn()...)
	defer signal.Stop(signals)
	if err := ctx.Err(); err != nil {
		return err
	}
	child := exec.Command(file, args...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, stdout, stderr
	reads := term.IsTerminal(int(os.Stdin.Fd()))
	child.SysProcAttr = attributes(!reads)
	// Linux sends the program SIGTERM if this thread ends, even if the process continues.
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
				_ = child.Process.Kill() // an error means that it has already ended
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

// handedOn returns the signals that Exec passes on. If this process ignores SIGHUP or SIGQUIT, for
// example because it runs under nohup, handedOn omits that signal.
func handedOn() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

// checkout returns the checkout from which this executable was built, if the working directory is
// in that checkout and a Go toolchain exists. Find builds in no other directory, because that would
// run foreign code. An executable that was built with -trimpath, as releases are, has no checkout.
func checkout() (dir string, ok bool) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", false
	}
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	built, err := os.Stat(root)
	if err != nil {
		return "", false
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", false
	}
	here, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if is, err := os.Stat(here); err == nil && os.SameFile(is, built) {
			return root, true
		}
		above := filepath.Dir(here)
		if above == here {
			return "", false
		}
		here = above
	}
}
