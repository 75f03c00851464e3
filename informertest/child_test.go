package informertest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/informertest"
)

// judgedVariable is an environment variable that TestFatalStoryIsJudged sets in a child process.
// The child calls Run with a rig whose Fails names a story.
const judgedVariable = "INFORMERTEST_JUDGED"

// TestFatalStoryIsJudged checks Run with a rig whose Fails names a fatal story. Run must pass if
// the informer fails the story in any way, and must fail if the informer passes the story. The test
// runs itself in a child process and checks the child's output.
func TestFatalStoryIsJudged(t *testing.T) {
	const story = "PanickingHandler"
	sound := newNative(weir.ModeAuto)
	for _, test := range []struct {
		name   string
		new    maker
		passes bool
		says   string
	}{
		{"Passes", sound, false, "is stated to fail (so it is stated), but does not"},
		{"FailsInOrder", func(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
			inf, err := sound(cfg, o)
			return handlers(untilPanic)(inf), err
		}, true, "fails as stated: after"},
		{"Crashes", func(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
			inf, err := sound(cfg, o)
			return handlers(onGoroutine)(inf), err
		}, true, "fails as stated: the process ended: panic: "},
		{diesBehind, sound, true, "fails as stated: the process ended: exit status 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if os.Getenv(judgedVariable) != "" {
				informertest.Run(t, informertest.Rig{Name: "judged", New: test.new, Fails: map[string]string{story: "so it is stated"}})
				if test.name == diesBehind && informertest.InChild() {
					os.Exit(3)
				}
				return
			}
			pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$/^" + story + "$"
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+pattern, "-test.v")
			cmd.Env = append(os.Environ(), judgedVariable+"=1")
			out, err := cmd.CombinedOutput()
			if (err == nil) != test.passes || !strings.Contains(string(out), test.says) {
				t.Errorf("passes: %v, want %v, and %q\n%s", err == nil, test.passes, test.says, out)
			}
		})
	}
}

// diesBehind is the case in which the informer passes the story, and kills the process after the
// story.
const diesBehind = "DiesBehind"

// untilPanic returns a handler that recovers the panic of h, and does not call h again after the
// panic.
func untilPanic(h informertest.Handler) informertest.Handler {
	over := false
	added := h.Added
	h.Added = func(p *corev1.Pod, initial bool) {
		if over {
			return
		}
		over = true
		defer func() { over = recover() != nil }()
		added(p, initial)
	}
	return h
}

// onGoroutine returns a handler that calls h on another goroutine. This goroutine does not recover
// h's panic, so the panic kills the process.
func onGoroutine(h informertest.Handler) informertest.Handler {
	added := h.Added
	h.Added = func(p *corev1.Pod, initial bool) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			added(p, initial)
		}()
		<-done
	}
	return h
}
