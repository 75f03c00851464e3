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
)

// The parts of this test binary in the tests of Exec, by its environment.
const (
	partVariable = "WEIR_COMMAND_TEST"
	partOuter    = "outer" // runs the inner one by Exec, as weir does
	partInner    = "inner" // drains when it is interrupted
	// innerVariable says what the inner one does besides.
	innerVariable = "WEIR_COMMAND_TEST_INNER"
	innerCounts   = ""         // counts the interrupts
	innerPlain    = "plain"    // nothing
	innerStubborn = "stubborn" // ignores what should end it
)

// patience bounds how long a part may take, whatever becomes of the test. It is generous.
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

// drain drains when it is interrupted, until a line is typed.
func drain(ctx context.Context) error {
	interrupts := make(chan os.Signal, 8)
	counts := os.Getenv(innerVariable) == innerCounts
	if counts {
		signal.Notify(interrupts, os.Interrupt)
	}
	fmt.Println("ready")
	<-ctx.Done()
	if counts {
		<-interrupts // the one that ended ctx, which may come here later
	}
	fmt.Println("draining")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Println("drained after another", len(interrupts))
	return err
}

// outer is a command that runs the outer part, and with it the inner one, which is as told.
func outer(inner string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), partVariable+"="+partOuter, innerVariable+"="+inner)
	return cmd
}

// begin starts a command and returns what it says.
func begin(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(stdout)
}

// drained starts a command, calls ready when it says that it is, and gives it the line that its
// draining waits for. It returns what the command says until it ends.
func drained(t *testing.T, cmd *exec.Cmd, ready func()) string {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
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

// insist calls a function again and again until it has been enough.
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

// TestExecInterrupt sends a process group an interrupt, as a terminal does: the program that Exec
// runs gets one and ends in good order. Further ones end it at once, and with it Exec.
func TestExecInterrupt(t *testing.T) {
	for _, again := range []bool{false, true} {
		cmd := outer(innerCounts)
		if again {
			cmd = outer(innerPlain)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		interrupt := func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // or it has ended
		}
		enough := func() {}
		var said []string
		for lines := begin(t, cmd); lines.Scan(); {
			said = append(said, lines.Text())
			switch {
			case lines.Text() == "ready":
				interrupt()
			case lines.Text() == "draining" && again:
				enough = insist(interrupt) // the program stops to listen to interrupts soon after the first one
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

// TestExecStubborn: a program that ignores what should end it is killed in the end, and Exec
// returns.
func TestExecStubborn(t *testing.T) {
	cmd := outer(innerStubborn)
	enough := func() {}
	var said []string
	for lines := begin(t, cmd); lines.Scan(); {
		if said = append(said, lines.Text()); lines.Text() == "ready" {
			enough = insist(func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // or it has ended
		}
	}
	enough()
	err := cmd.Wait() // one signal more than Exec takes ends its process, too
	if got := strings.Join(said, " "); got != "ready" || err == nil {
		t.Errorf("it said %q and ended with %v", got, err)
	}
}

// TestExecHangup: the program that Exec runs gets what ends a process whose terminal is gone, and
// Exec returns when it has ended.
func TestExecHangup(t *testing.T) {
	// It is caught so that programs do not inherit that it is ignored, as under nohup.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		cmd := outer(innerPlain)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for lines := begin(t, cmd); lines.Scan(); {
			if said = append(said, lines.Text()); lines.Text() == "ready" {
				_ = cmd.Process.Signal(s)
			}
		}
		err = cmd.Wait()
		// exitUsage is also what a Go program ends with on SIGQUIT.
		if code := cmd.ProcessState.ExitCode(); err == nil || code != exitFailure && code != exitUsage {
			t.Errorf("%v: it ended with %v", s, err)
		}
		stdin.Close()
		if got := strings.Join(said, " "); got != "ready" {
			t.Errorf("%v: it said %q", s, got)
		}
	}
}

// TestExecIgnoresHangup: under nohup, a hangup ends nothing.
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
	if got != "ready draining drained after another 0" {
		t.Errorf("it said %q", got)
	}
}
