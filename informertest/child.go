package informertest

import (
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

// playInChild plays the running test again in a process of its own, which the informer may bring
// down.
func playInChild(t *testing.T) []string {
	var pattern []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+strings.Join(pattern, "/"), "-test.timeout=1m")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		// In the child a story that fails, as stated, in an orderly way is a pass too.
		if strings.Contains(string(out), "fails as stated") {
			return []string{"it failed in an orderly way"}
		}
		return nil
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
