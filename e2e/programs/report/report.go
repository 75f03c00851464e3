// Package report lets a test ask a program under test for its objects. The test writes questions to
// the program's standard input, one per line. The program answers each with a line of JSON on its
// standard output. It exits when its standard input ends. A program whose results are objects in
// the cluster answers only AskDropIn.
package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// These are the questions to a program.
const (
	AskCount  = "count"   // answer: number of the program's objects
	AskAll    = "all"     // answer: the program's objects, by name
	AskDropIn = "drop-in" // answer: a DropIn
)

// Knowledge gives access to the objects of a program. The test calls Count while it measures the
// program, so Count must use little memory. Serve calls both functions from one goroutine.
type Knowledge struct {
	Count func() int
	All   func() map[string]any // by name
}

// Known returns a Knowledge whose Count calls the function all. This function must be cheap: it
// must return an existing map or a small map.
func Known(all func() map[string]any) Knowledge {
	return Knowledge{Count: func() int { return len(all()) }, All: all}
}

// Main parses the flags and runs a program. If the function run returns an error, Main prints it
// and exits the program.
func Main(run func() error) {
	flag.Parse()
	Check(run())
}

// Check prints err and exits the program, unless err is nil.
func Check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// EndWithInput starts Serve in the background and returns. It is for a program that reports no
// objects: Serve answers AskDropIn. When the standard input ends, EndWithInput exits the program.
func EndWithInput() {
	go func() { // exits the program
		if err := Serve(Known(func() map[string]any { return nil })); err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
		}
		os.Exit(0)
	}()
}

// Serve answers questions from the standard input until the input ends. The input also ends when
// the parent process exits. Serve returns an error if it cannot read a question or write an answer.
func Serve(known Knowledge) error {
	defer profile()()
	return serve(os.Stdin, os.Stdout, known)
}

// ProfileVariable is an environment variable with the path of a file. If it is set, the program
// writes a CPU profile to this file when its standard input ends. It also writes a heap profile to
// the same path with the suffix .heap.
const ProfileVariable = "PROGRAM_CPU_PROFILE"

// profile starts a CPU profile if ProfileVariable is set. stop ends the profile and writes the CPU
// and heap profiles. stop is never nil.
func profile() (stop func()) {
	name := os.Getenv(ProfileVariable)
	if name == "" {
		return func() {}
	}
	f, err := os.Create(name)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no profile:", err)
		return func() {}
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
		if err := writeHeap(name + ".heap"); err != nil {
			fmt.Fprintln(os.Stderr, "no heap profile:", err)
		}
	}
}

// writeHeap writes a heap profile. It runs the garbage collector first, because the profile shows
// the heap at the last collection.
func writeHeap(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}

func serve(in io.Reader, out io.Writer, known Knowledge) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := json.Marshal(answerTo(lines.Text(), known))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s\n", answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answerTo(question string, known Knowledge) any {
	switch question {
	case AskCount:
		return known.Count()
	case AskDropIn:
		return FindDropIn()
	}
	return known.All() // json.Marshal sorts the keys
}
