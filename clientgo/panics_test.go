package clientgo

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// panicsAtA returns a handler that panics after it has recorded the object a.
func panicsAtA(to *recorder) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		to.OnAdd(obj, false)
		if obj.(*corev1.Pod).Name == "a" {
			panic("a is too much")
		}
	}}
}

// crashing is the environment variable that makes TestPanicEndsProcess panic, with the constructor
// that it names.
const crashing = "WEIR_TEST_CRASHING"

// TestPanicEndsProcess checks that a handler's panic ends the process (a child of the test's), and
// that the log shows where it happened, as with client-go.
func TestPanicEndsProcess(t *testing.T) {
	if make := bothConstructors[os.Getenv(crashing)]; make != nil {
		s := newRecordedInformer(t, make)
		panicking := newRecorder()
		register(t, s.informer, panicsAtA(panicking))
		s.source.Add(pod("a", "1"))
		s.start(t)
		s.source.Add(pod("b", "1"))
		panicking.wait(t, "add d/b@2 v=1") // never arrives
		return
	}
	for maker := range bothConstructors {
		t.Run(maker, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanicEndsProcess$")
			cmd.Env = append(os.Environ(), crashing+"="+maker)
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
				t.Errorf("ends with %v", err)
			}
			logged, crashed, _ := strings.Cut(string(out), "\npanic: a is too much")
			if !strings.Contains(logged, "Observed a panic") || !strings.Contains(logged, ".panicsAtA") || crashed == "" {
				t.Errorf("says %s", out)
			}
		})
	}
}
