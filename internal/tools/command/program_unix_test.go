//go:build unix

package command

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/testing/check"
)

// The tests of Exec run this test binary in several roles, which its environment selects.
const (
	partVariable = "WEIR_COMMAND_TEST"
	partOuter    = "outer" // runs the inner role by Exec, as weir runs a program
	partInner    = "inner" // drains on an interrupt
	// innerVariable selects what the inner role does in addition to draining.
	innerVariable = "WEIR_COMMAND_TEST_INNER"
	innerCounts   = ""         // counts the interrupts
	innerPlain    = "plain"    // only drains
	innerStubborn = "stubborn" // ignores the signals that should end it
)

// patience limits how long a role runs, even if the test fails. It is generous.
const patience = time.Minute

func TestMain(m *testing.M) {
	part := os.Getenv(partVariable)
	if part != "" {
		time.AfterFunc(patience, func() { fmt.Println("too late"); os.Exit(9) })
	}
	switch part {
	case partOuter:
		os.Exit(Run(func(ctx context.Context) error {
			os.Setenv(partVariable, partInner)
			return Exec(ctx, os.Args[0], nil, os.Stdout, os.Stderr)
		}))
	case partInner:
		if os.Getenv(innerVariable) == innerStubborn {
			signal.Ignore(os.Interrupt, syscall.SIGTERM)
			fmt.Println("ready")
			select {}
		}
		os.Exit(Run(drain))
	}
	goleak.VerifyTestMain(m)
}

// drain waits for an interrupt, and then for a line on standard input. It simulates a program that
// drains its clients.
func drain(ctx context.Context) error {
	interrupts := make(chan os.Signal, 8)
	counts := os.Getenv(innerVariable) == innerCounts
	if counts {
		signal.Notify(interrupts, os.Interrupt)
	}
	fmt.Println("ready")
	<-ctx.Done()
	if counts {
		<-interrupts // the interrupt that ended ctx; the channel may receive it later
	}
	fmt.Println("draining")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Println("drained after another", len(interrupts))
	return err
}

// outer returns a command that runs the outer role, which runs the inner role with the given
// behaviour.
func outer(inner string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), partVariable+"="+partOuter, innerVariable+"="+inner)
	return cmd
}

// begin starts a command and returns a scanner of its output.
func begin(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	check.NoError(t, err)
	check.NoError(t, cmd.Start())
	return bufio.NewScanner(stdout)
}

// drained starts a command and calls ready when the command reports that it is ready. Then it
// writes the line that ends the command's draining, and returns the command's output.
func drained(t *testing.T, cmd *exec.Cmd, ready func()) string {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	check.NoError(t, err)
	var said []string
	for lines := begin(t, cmd); lines.Scan(); {
		said = append(said, lines.Text())
		switch lines.Text() {
		case "ready":
			ready()
		case "draining":
			fmt.Fprintln(stdin)
		}
	}
	return strings.Join(said, " ")
}

// insist calls a function repeatedly until the caller calls enough.
func insist(call func()) (enough func()) {
	tick, done := time.NewTicker(5*time.Millisecond), make(chan struct{})
	go func() {
		for {
			call()
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() { tick.Stop(); close(done) }
}

// TestExecInterrupt sends an interrupt to a process group, like a terminal does. It checks that the
// program that Exec runs receives the interrupt once and ends cleanly, and that further interrupts
// end the program and Exec immediately.
func TestExecInterrupt(t *testing.T) {
	for _, again := range []bool{false, true} {
		cmd := outer(innerCounts)
		if again {
			cmd = outer(innerPlain)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		stdin, err := cmd.StdinPipe()
		check.NoError(t, err)
		interrupt := func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // an error means that it has already ended
		}
		enough := func() {}
		var said []string
		for lines := begin(t, cmd); lines.Scan(); {
			said = append(said, lines.Text())
			switch {
			case lines.Text() == "ready":
				interrupt()
			case lines.Text() == "draining" && again:
				enough = insist(interrupt) // the program stops handling interrupts soon after the first one
			case lines.Text() == "draining":
				fmt.Fprintln(stdin)
			}
		}
		enough()
		err = cmd.Wait()
		want := "ready draining drained after another 0"
		if again {
			want = "ready draining"
		}
		if got := strings.Join(said, " "); got != want || (err == nil) == again {
			t.Errorf("interrupted again: %t: it said %q and ended with %v", again, got, err)
		}
	}
}

// TestExecStubborn checks that Exec kills a program that ignores the signals that should end it,
// and then returns.
func TestExecStubborn(t *testing.T) {
	cmd := outer(innerStubborn)
	enough := func() {}
	var said []string
	for lines := begin(t, cmd); lines.Scan(); {
		if said = append(said, lines.Text()); lines.Text() == "ready" {
			// An error means that the process has ended.
			enough = insist(func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
		}
	}
	enough()
	err := cmd.Wait() // may be an error: cmd does not handle a fourth signal
	if got := strings.Join(said, " "); got != "ready" || err == nil {
		t.Errorf("it said %q and ended with %v", got, err)
	}
}

// TestExecHangup checks that the program receives the signal that a closed terminal sends, and that
// Exec returns after the program has ended.
func TestExecHangup(t *testing.T) {
	// If this process ignores SIGHUP, for example under nohup, its child programs ignore it too. So
	// the test handles SIGHUP.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		cmd := outer(innerPlain)
		stdin, err := cmd.StdinPipe()
		check.NoError(t, err)
		var said []string
		for lines := begin(t, cmd); lines.Scan(); {
			if said = append(said, lines.Text()); lines.Text() == "ready" {
				_ = cmd.Process.Signal(s)
			}
		}
		err = cmd.Wait()
		// On SIGQUIT a Go program exits with code 2, like exitUsage.
		if code := cmd.ProcessState.ExitCode(); err == nil || code != exitFailure && code != exitUsage {
			t.Errorf("%v: it ended with %v", s, err)
		}
		stdin.Close()
		check.Equal(t, strings.Join(said, " "), "ready", "%v: it said", s)
	}
}

// TestExecIgnoresHangup checks that under nohup, a hangup ends neither Exec's process nor the
// program.
func TestExecIgnoresHangup(t *testing.T) {
	cmd := outer(innerPlain)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap "" HUP; exec "$0"`, os.Args[0]}
	got := drained(t, cmd, func() {
		_ = cmd.Process.Signal(syscall.SIGHUP)
		_ = cmd.Process.Signal(syscall.SIGTERM)
	})
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	check.Equal(t, got, "ready draining drained after another 0", "it said")
}
