// Package report is how a program under test tells what it has made of the cluster: it answers lines on its standard input with lines
// of JSON on its standard output. A program whose work shows in the cluster itself reports nothing, but ends with its standard input too.
package report

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
)

// What a program is asked.
const (
	AskCount = "count" // answered with a State without its sum, which costs something
	AskState = "state" // answered with a State
	AskAll   = "all"   // answered with all that it knows, an object by name
)

// State is what a program knows, in short.
type State struct {
	Count int    `json:"count"`
	Sum   string `json:"sum,omitempty"` // of all: the same in two programs that know the same
}

// EndWithInput ends this program when its standard input ends, which it does with whoever started it. It does not block.
func EndWithInput() {
	stop := profile()
	go func() { // ends with the program
		io.Copy(io.Discard, os.Stdin)
		stop()
		os.Exit(0)
	}()
}

// Serve answers questions about what known returns, by name, until the standard input ends, which it does with whoever asks.
func Serve(known func() map[string]any) error {
	defer profile()()
	return serve(os.Stdin, os.Stdout, known)
}

// ProfileVariable names a file that the program writes a CPU profile to when it ends with its input.
const ProfileVariable = "PROGRAM_CPU_PROFILE"

// profile starts a profile where one is asked for. stop ends it.
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
	}
}

func serve(in io.Reader, out io.Writer, known func() map[string]any) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := answerTo(lines.Text(), known())
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s\n", answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answerTo(question string, all map[string]any) ([]byte, error) {
	if question == AskCount {
		return json.Marshal(State{Count: len(all)})
	}
	raw, err := json.Marshal(all) // in the order of the keys
	if err != nil || question == AskAll {
		return raw, err
	}
	sum := sha256.Sum256(raw)
	return json.Marshal(State{Count: len(all), Sum: hex.EncodeToString(sum[:8])})
}
