// Package report lets a program under test report its view of the cluster: the program answers
// questions, one per line of its standard input, with lines of JSON on its standard output. A
// program whose results are objects in the cluster reports nothing, but also ends when its standard
// input ends.
package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
)

// Questions to a program.
const (
	AskCount  = "count"   // answer: the number of objects that the program has
	AskAll    = "all"     // answer: all objects that the program has, by name
	AskDropIn = "drop-in" // answer: a DropIn
)

// Knowledge gives access to the objects that a program has. The test asks for it while it measures
// the program, so Count must use little memory.
type Knowledge struct {
	Count func() int
	All   func() map[string]any // by name
}

// Known returns the Knowledge of a program for which All is cheap, because it returns an existing
// or a small map.
func Known(all func() map[string]any) Knowledge {
	return Knowledge{Count: func() int { return len(all()) }, All: all}
}

// EndWithInput calls Serve in the background, for a program that reports no objects. Serve answers
// AskDropIn; when the standard input ends, EndWithInput exits the program. EndWithInput does not
// block.
func EndWithInput() {
	go func() { // ends with the program
		if err := Serve(Known(func() map[string]any { return nil })); err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
		}
		os.Exit(0)
	}()
}

// Serve answers questions until the standard input ends, at the latest when the parent process has
// ended.
func Serve(known Knowledge) error {
	defer profile()()
	return serve(os.Stdin, os.Stdout, known)
}

// ProfileVariable is an environment variable with the path of a file. If it is set, the program
// writes a CPU profile to this file when its standard input ends. It also writes a heap profile, of
// allocated and live memory, to the path with .heap appended.
const ProfileVariable = "PROGRAM_CPU_PROFILE"

// profile starts a CPU profile if ProfileVariable is set. stop ends it and writes the profiles; it
// is never nil.
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

// writeHeap writes a heap profile. It collects garbage first, because the profile shows the state
// after the last collection.
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
		return dropIn()
	}
	return known.All() // encoding sorts the keys
}
