package informertest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// childVariable is an environment variable that is set in a child process. A child process plays
// one fatal story (Story.Fatal): if the informer fails the story, it kills the process.
const childVariable = "INFORMERTEST_CHILD"

func inChild() bool { return os.Getenv(childVariable) != "" }

// childFaults is the prefix of the output line in which a child process reports the story's faults
// as JSON. If the informer kills the process during the story, there is no such line.
const childFaults = "informertest: faults: "

// reportFaults writes the faults of a story to the output of a child process, where the parent
// process reads them.
func reportFaults(t *testing.T, faults []string) {
	line, err := json.Marshal(faults)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s%s\n", childFaults, line) // the previous output may lack a newline
}

// playInChild runs the current test in a child process, which the informer may kill, and returns
// the story's faults.
func playInChild(t *testing.T) []string {
	var pattern []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+strings.Join(pattern, "/"), "-test.timeout=1m")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(line, childFaults); ok {
			var faults []string
			if err := json.Unmarshal([]byte(text), &faults); err != nil {
				t.Fatalf("informertest: %v in %q", err, line)
			}
			if err == nil || len(faults) > 0 {
				return faults
			}
			// The process was killed, or the race detector made it fail, after the story.
		}
	}
	if err == nil {
		t.Fatalf("informertest: the process for the story did not play it\n%s", out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "panic:") {
			return []string{"the process ended: " + strings.TrimSpace(line)}
		}
	}
	return []string{fmt.Sprintf("the process ended: %v\n%s", err, out)}
}

var inBubble = regexp.MustCompile(`^goroutine \d+ \[[^\]]*(synctest bubble \d+)`)

// goroutines returns the stacks of the goroutines in the caller's bubble.
func goroutines() []string {
	buf := make([]byte, 1<<16)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := strings.Split(string(buf), "\n\n")
	own := inBubble.FindStringSubmatch(all[0]) // the caller's stack is first
	return slices.DeleteFunc(all, func(stack string) bool {
		m := inBubble.FindStringSubmatch(stack)
		return m == nil || own == nil || m[1] != own[1]
	})
}
