// Package report is how a program under test tells what it has made of the cluster: it answers
// lines on its standard input with lines of JSON on its standard output. A program whose work shows
// in the cluster itself reports nothing, but ends with its standard input too.
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

// What a program is asked.
const (
	AskCount  = "count"   // answered with how many objects it knows
	AskAll    = "all"     // answered with all that it knows, an object by name
	AskDropIn = "drop-in" // answered with DropIn
)

// Knowledge is what a program knows, as it is asked while it is measured. Count must take little
// memory, or the asking is measured, too.
type Knowledge struct {
	Count func() int
	All   func() map[string]any // by name
}

// Known returns the Knowledge of a program for which All is cheap: it has the map, or makes little
// of one.
func Known(all func() map[string]any) Knowledge {
	return Knowledge{Count: func() int { return len(all()) }, All: all}
}

// EndWithInput calls Serve in the background for a program that knows nothing. It answers
// AskDropIn, and ends this program when its standard input ends. It does not block.
func EndWithInput() {
	go func() { // ends with the program
		if err := Serve(Known(func() map[string]any { return nil })); err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
		}
		os.Exit(0)
	}()
}

// Serve answers questions until the standard input ends, which it does when the parent has ended.
func Serve(known Knowledge) error {
	defer profile()()
	return serve(os.Stdin, os.Stdout, known)
}

// ProfileVariable names a file that the program writes a CPU profile to when it ends with its
// input, and beside it, with .heap behind the name, one of what it has allocated and what of that
// is in use.
const ProfileVariable = "PROGRAM_CPU_PROFILE"

// profile starts a profile if ProfileVariable asks for one. stop ends it, and is never nil.
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

// writeHeap writes a heap profile. It collects garbage first: the profile tells what the last
// collection has left.
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
	return known.All() // in the order of the keys
}
