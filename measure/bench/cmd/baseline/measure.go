package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// measurer measures rows in a checkout. It is not safe for concurrent use.
type measurer struct {
	*options
	out      string // the directory for the results
	programs string // a temporary directory for programs
	commit   string
	build    string
	progress io.Writer

	kubeconfig string // of the cluster; empty if it does not run
	stop       func() // stops the cluster
}

// newMeasurer returns a measurer that has built weir-bench in the checkout. The caller must call
// close.
func newMeasurer(ctx context.Context, o *options, progress io.Writer) (*measurer, error) {
	m := &measurer{options: o, out: o.dir, progress: progress, stop: func() {}}
	if o.check {
		m.out = filepath.Join("dist", "baseline")
	}
	if err := os.MkdirAll(m.out, 0o755); err != nil {
		return nil, err
	}
	var err error
	if m.programs, err = os.MkdirTemp("", "baseline"); err != nil {
		return nil, err
	}
	if err := m.identify(ctx); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// identify builds weir-bench and sets m.commit and m.build.
func (m *measurer) identify(ctx context.Context) error {
	hash, err := m.output(ctx, "", "git", "describe", "--always", "--dirty", "--exclude=*")
	if err != nil {
		return err
	}
	m.commit = strings.TrimSpace(string(hash))
	path, err := m.compile(ctx, "./measure/bench/cmd/weir-bench")
	if err != nil {
		return err
	}
	code, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(code)
	m.build = hex.EncodeToString(sum[:8])
	return nil
}

func (m *measurer) close() {
	m.stop()
	os.RemoveAll(m.programs)
}

// command returns a command that runs in a directory of the checkout. If ctx ends, the command is
// interrupted, so that it can stop its own children.
func (m *measurer) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = filepath.Join(m.tree, dir), m.progress
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = time.Minute
	return c
}

// output runs a command and returns its standard output.
func (m *measurer) output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	out, err := m.command(ctx, dir, name, args...).Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return out, err
}

// compile builds a program of the checkout and returns its path. The bytes of the program depend
// neither on the directory of the checkout nor on its commit.
func (m *measurer) compile(ctx context.Context, pkg string) (string, error) {
	path := filepath.Join(m.programs, filepath.Base(pkg))
	_, err := m.output(ctx, "", "go", "build", "-trimpath", "-buildvcs=false", "-o", path, pkg)
	return path, err
}

// measure measures each row that has no result of this build. If a row fails, it continues with the
// next one.
func (m *measurer) measure(ctx context.Context) error {
	var failed []error
	for i, of := range m.rows {
		if m.kubeconfig != "" && !of.cluster {
			m.stop()
			m.kubeconfig, m.stop = "", func() {}
		}
		fmt.Fprintf(m.progress, "%d of %d: %s\n", i+1, len(m.rows), of.name)
		if err := m.one(ctx, of); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", of.name, err))
			fmt.Fprintf(m.progress, "%s: %v\n", of.name, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// one measures a row, unless the row's file contains its result. It never overwrites a baseline of
// another build.
func (m *measurer) one(ctx context.Context, of row) error {
	r := &record{Command: of.command(), Commit: m.commit, Build: m.build, Pods: m.pods, Runs: m.runs, CPUs: runtime.NumCPU(), At: time.Now().UTC().Truncate(time.Second)}
	if of.program != "" {
		r.Runs = m.programRuns
	}
	path := filepath.Join(m.out, of.name+".json")
	have, err := read(path)
	switch {
	case err != nil:
		return err
	case have != nil && r.same(have):
		fmt.Fprintf(m.progress, "%s has it\n", path)
		return nil
	case have != nil && !m.check:
		return fmt.Errorf("%s was measured at commit %s or with different flags: remove it to record a new baseline", path, have.Commit)
	}
	if of.program != "" {
		err = m.runProgram(ctx, of, r)
	} else {
		err = m.runBench(ctx, of, r)
	}
	if err != nil {
		return err
	}
	for _, f := range of.figures {
		if _, ok := r.Ratio[f.key]; !ok {
			return fmt.Errorf("the results do not have %s", f.key)
		}
	}
	return r.write(path)
}

// command returns the command line with which a user measures the row.
func (r row) command() string {
	if r.program != "" {
		return "make programs PROGRAMFLAGS=-programs.share"
	}
	command := "weir bench " + strings.Join(r.args, " ")
	if r.cluster {
		command += " --kubeconfig PATH"
	}
	return command
}

// runBench runs weir-bench for a row, and sets the ratios and results of r.
func (m *measurer) runBench(ctx context.Context, of row, r *record) error {
	args := append([]string{}, of.args...)
	args = append(args, "--runs", strconv.Itoa(m.runs), "--objects", strconv.Itoa(m.pods), "-o", "json")
	if of.cluster {
		if err := m.start(ctx); err != nil {
			return err
		}
		args = append(args, "--kubeconfig", m.kubeconfig)
	} else {
		args = append(args, "--pods", strconv.Itoa(m.pods))
	}
	out, err := m.output(ctx, "", filepath.Join(m.programs, "weir-bench"), args...)
	if err != nil {
		return err
	}
	var results []struct{ Ratio figures.Values }
	if err := json.Unmarshal(out, &results); err != nil {
		return fmt.Errorf("read the results: %w", err)
	}
	if len(results) != 1 {
		return fmt.Errorf("%d results, want one", len(results))
	}
	r.Ratio, r.Results = results[0].Ratio, out
	return nil
}

// start starts the cluster, unless it is running, and waits until the cluster has its pods.
func (m *measurer) start(ctx context.Context) error {
	if m.kubeconfig != "" {
		return nil
	}
	path, err := m.compile(ctx, "./e2e/realserver")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := m.command(ctx, "", path, "--pods", strconv.Itoa(m.pods))
	out, err := c.StdoutPipe()
	if err != nil {
		cancel()
		return err
	}
	if err := c.Start(); err != nil {
		cancel()
		return err
	}
	stop := func() {
		cancel()
		c.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return fmt.Errorf("start the cluster: %w", err)
	}
	m.kubeconfig, m.stop = strings.TrimSpace(line), stop
	return nil
}

// runProgram runs a program several times, each time unchanged and changed to use the drop-in. It
// sets the ratios and results of r.
func (m *measurer) runProgram(ctx context.Context, of row, r *record) error {
	var runs []figures.Values
	var lines []string
	for range m.programRuns {
		out, err := m.output(ctx, "e2e", "go", "test", "-timeout", "0", "-v", "-count=1", "-run", "^TestPrograms$/^"+of.program+"$",
			"./programs", "-args", "-programs.pods", strconv.Itoa(m.pods), "-programs.share")
		if err != nil {
			m.progress.Write(out)
			return err
		}
		ratio, line, err := parseProgram(of.program, out)
		if err != nil {
			return err
		}
		runs, lines = append(runs, ratio), append(lines, line)
	}
	r.Ratio = figures.Medians(runs)
	var err error
	r.Results, err = json.Marshal(lines)
	return err
}

// parseProgram finds a program's line in the table that TestPrograms prints. It returns the
// program's ratios and the line.
func parseProgram(program string, out []byte) (figures.Values, string, error) {
	for line := range bytes.Lines(out) {
		var name, imports string
		var statements int
		var before, after, peak, cpuBefore, cpuAfter, cpu float64
		if n, _ := fmt.Sscan(string(line), &name, &statements, &imports, &before, &after, &peak, &cpuBefore, &cpuAfter, &cpu); n == 9 && name == program {
			return figures.Values{programPeak: after / before, programCPU: cpu}, strings.Join(strings.Fields(string(line)), " "), nil
		}
	}
	return nil, "", fmt.Errorf("the output of make programs has no line of %s", program)
}
