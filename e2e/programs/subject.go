package programs

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/weirproject/weir/e2e/programs/report"
)

var profileFlag = flag.String("programs.profile", "", "write a CPU profile and a heap profile of each program into this directory")

// subject is a running program under test. The program exits when its standard input is closed,
// which also happens when this process ends.
type subject struct {
	name  string
	cmd   *exec.Cmd
	ask   io.WriteCloser
	told  chan []byte      // last line of its standard output; closed when the program exits
	gone  chan struct{}    // closed when the program exits
	log   *strings.Builder // standard error output; complete after the program has exited
	began time.Time
	ended bool
	used  usage // valid after end
}

// usage describes the resources that a program has used.
type usage struct {
	// done is the time from the start of the program until the test ended it. The test ends a program
	// that has received all objects or finished its work.
	done    time.Duration
	peakRSS int64 // bytes
	cpu     time.Duration
	dropIn  report.DropIn // how the program used the drop-in before it was ended
}

// start starts a program. The program's environment variable KUBECONFIG names the kubeconfig.
func start(binary, kubeconfig string, args ...string) (*subject, error) {
	s := &subject{name: filepath.Base(binary), cmd: exec.Command(binary, args...), told: make(chan []byte, 1), log: new(strings.Builder), began: time.Now()}
	s.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	if *profileFlag != "" {
		s.cmd.Env = append(s.cmd.Env, report.ProfileVariable+"="+filepath.Join(*profileFlag, s.name+".pprof"))
	}
	s.cmd.Stderr = s.log
	var err error
	if s.ask, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.gone = make(chan struct{})
	go s.read(out)
	return s, nil
}

// read reads the program's output until the program exits. If no caller has read a line before the
// next one arrives, read drops the earlier line.
func (s *subject) read(out io.Reader) {
	defer close(s.gone)
	defer close(s.told)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		select {
		case <-s.told:
		default:
		}
		s.told <- line
	}
}

// question sends a question to the program, and decodes the answer into v. On an error, it ends the
// program.
func (s *subject) question(what string, v any) error {
	if err := s.put(what, v); err != nil {
		s.end()
		return fmt.Errorf("%s: %w\n%s", s.name, err, s.log)
	}
	return nil
}

// patience bounds the time until a program answers a question.
const patience = time.Minute

func (s *subject) put(what string, v any) error {
	select {
	case <-s.told: // discard an earlier line, which is not the answer
	default:
	}
	if _, err := fmt.Fprintln(s.ask, what); err != nil {
		return err
	}
	select {
	case line, ok := <-s.told:
		if !ok {
			return io.ErrUnexpectedEOF
		}
		return json.Unmarshal(line, v)
	case <-time.After(patience):
		return fmt.Errorf("no answer to %q", what)
	}
}

// await waits until the program reports that it has count objects.
func (s *subject) await(ctx context.Context, count int) error {
	tick := time.Tick(50 * time.Millisecond)
	for known := -1; ; {
		if err := s.question(report.AskCount, &known); err != nil || known == count {
			return err
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; it knows of %d, wanted %d\n%s", s.name, context.Cause(ctx), known, count, s.log)
		}
	}
}

// alive returns a context that ends when ctx ends or the program exits.
func (s *subject) alive(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // returns when the program exits
		<-s.gone
		cancel(fmt.Errorf("%s has ended", s.name))
	}()
	return ctx
}

// end ends the program, and returns the resources that it has used. Later calls return the same
// value.
func (s *subject) end() usage {
	if s.ended {
		return s.used
	}
	s.ended, s.used.done, s.used.peakRSS = true, time.Since(s.began), peakRSS(s.cmd.Process.Pid)
	s.used.dropIn = s.dropIn()
	s.ask.Close()
	if *profileFlag == "" { // a profiled program writes its profile, and then exits
		s.cmd.Process.Kill()
	}
	<-s.gone
	s.cmd.Wait()
	s.used.cpu = s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
	return s.used
}

// dropIn asks the program how it uses the drop-in. It repeats the question for a second while some
// informers have not started to watch. If the program does not answer, the result is the zero
// value.
func (s *subject) dropIn() (found report.DropIn) {
	for range 20 {
		if err := s.put(report.AskDropIn, &found); err != nil || found.Captured == found.Informers {
			return found
		}
		time.Sleep(50 * time.Millisecond)
	}
	return found
}

// peakRSS returns the peak resident set size of a process in bytes. On systems other than Linux, it
// returns 0.
func peakRSS(pid int) int64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	status, _ := p.NewStatus()
	return int64(status.VmHWM)
}
