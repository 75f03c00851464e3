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

// The parts of this test binary in TestExecInterrupt, by its environment.
const (
	partVariable = "WEIR_COMMAND_TEST"
	partOuter    = "outer" // runs the inner one by Exec, as weir does
	partInner    = "inner" // drains when it is interrupted
	// insistVariable says that the inner one is to be interrupted again and again. Otherwise it counts.
	insistVariable = "WEIR_COMMAND_TEST_INSIST"
)

func TestMain(m *testing.M) {
	switch os.Getenv(partVariable) {
	case partOuter:
		os.Exit(Run(func(ctx context.Context) error {
			os.Setenv(partVariable, partInner)
			return Exec(ctx, os.Args[0], nil, os.Stdout, os.Stderr)
		}))
	case partInner:
		os.Exit(Run(func(ctx context.Context) error {
			interrupts := make(chan os.Signal, 8)
			counts := os.Getenv(insistVariable) == ""
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
		}))
	}
	goleak.VerifyTestMain(m)
}

// TestExecInterrupt sends a process group an interrupt, as a terminal does: the program that Exec runs
// gets one and ends in good order. Further ones end it at once, and with it Exec.
func TestExecInterrupt(t *testing.T) {
	for _, again := range []bool{false, true} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), partVariable+"="+partOuter)
		if again {
			cmd.Env = append(cmd.Env, insistVariable+"=true")
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		interrupt := func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // or it has ended
		}
		// The program stops to listen to interrupts soon after the first one: later ones end it.
		insist := func() (enough func()) {
			tick, done := time.NewTicker(5*time.Millisecond), make(chan struct{})
			go func() {
				for {
					interrupt()
					select {
					case <-tick.C:
					case <-done:
						return
					}
				}
			}()
			return func() { tick.Stop(); close(done) }
		}
		enough := func() {}
		var said []string
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			said = append(said, lines.Text())
			switch {
			case lines.Text() == "ready":
				interrupt()
			case lines.Text() == "draining" && again:
				enough = insist()
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
