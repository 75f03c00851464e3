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

	"github.com/weirproject/weir/e2e/programs/report"
)

var profileFlag = flag.String("programs.profile", "", "write a CPU profile of each program into this directory")

// subject is a program that runs. It ends with its standard input, and so with this process.
type subject struct {
	name  string
	cmd   *exec.Cmd
	ask   io.WriteCloser
	tell  *bufio.Reader
	log   *strings.Builder // its standard error; complete once it has ended
	began time.Time
}

// usage is what a program has used up.
type usage struct {
	done    time.Duration // until it was ended, because it knew all there was or had done all that there was to do
	peakRSS int64         // bytes
	cpu     time.Duration
}

// start starts a program on the cluster of a kubeconfig.
func start(binary, kubeconfig string, args ...string) (*subject, error) {
	s := &subject{name: filepath.Base(binary), cmd: exec.Command(binary, args...), log: new(strings.Builder), began: time.Now()}
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
	s.tell = bufio.NewReader(out)
	return s, s.cmd.Start()
}

// question asks the program, and reads its answer into v.
func (s *subject) question(what string, v any) error {
	_, err := fmt.Fprintln(s.ask, what)
	var line []byte
	if err == nil {
		line, err = s.tell.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(line, v)
	}
	if err != nil {
		s.end()
		return fmt.Errorf("%s: %w\n%s", s.name, err, s.log)
	}
	return nil
}

// await waits until the program knows of so many objects, and then asks for its state.
func (s *subject) await(ctx context.Context, count int) (state report.State, err error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for state.Count != count {
		if err := s.question(report.AskCount, &state); err != nil {
			return state, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return state, fmt.Errorf("%s: %w; it knows of %d, wanted %d\n%s", s.name, context.Cause(ctx), state.Count, count, s.log)
		}
	}
	return state, s.question(report.AskState, &state)
}

// alive returns a context that ends when the program does. The program cannot be asked anything any more.
func (s *subject) alive(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // until the program ends, as end has it do
		io.Copy(io.Discard, s.tell)
		cancel(fmt.Errorf("%s has ended", s.name))
	}()
	return ctx
}

// end ends the program, and tells what it has used.
func (s *subject) end() (u usage) {
	u.done, u.peakRSS = time.Since(s.began), peakRSS(s.cmd.Process.Pid)
	s.ask.Close()
	if *profileFlag == "" { // with one it ends on its own, once it has written its profile
		s.cmd.Process.Kill()
	}
	s.cmd.Wait()
	u.cpu = s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
	return u
}

// peakRSS is the peak resident set of a process in bytes, which Linux tells; 0 elsewhere.
func peakRSS(pid int) int64 {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(raw)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	return 0
}
