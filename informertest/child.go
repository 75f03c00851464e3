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

// childVariable is set in the environment of a process that plays one fatal story.
const childVariable = "INFORMERTEST_CHILD"

func inChild() bool { return os.Getenv(childVariable) != "" }

// childFaults begins the line on which such a process writes the story's faults, as JSON. A process
// that the informer brings down within the story writes none.
const childFaults = "informertest: faults: "

// reportFaults writes the faults that a story of this process had for the process that started it.
func reportFaults(t *testing.T, faults []string) {
	line, err := json.Marshal(faults)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s%s\n", childFaults, line) // what stands before it may lack its line's end
}

// playInChild plays the running test again in a process of its own, which the informer may bring
// down, and returns what went wrong in the story.
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
			// It was brought down, or had a race, behind the story.
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

// goroutines returns the stacks of the caller's bubble.
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
	own := inBubble.FindStringSubmatch(all[0]) // the caller comes first
	return slices.DeleteFunc(all, func(stack string) bool {
		m := inBubble.FindStringSubmatch(stack)
		return m == nil || own == nil || m[1] != own[1]
	})
}
