package source_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/source"
)

type recordedWarnings struct {
	mu   sync.Mutex
	seen []string
}

func (w *recordedWarnings) HandleWarningHeader(code int, agent, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprint(code, agent, text))
}

func (w *recordedWarnings) HandleWarningHeaderWithContext(_ context.Context, code int, agent, text string) {
	w.HandleWarningHeader(code, agent, "with context: "+text)
}

func (w *recordedWarnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

// TestWarnings checks that Weir and client-go pass the same warnings to the same handler, for LISTs
// and WATCHes that succeed or are refused.
func TestWarnings(t *testing.T) {
	refused := false
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Warning", `299 - "v1 Things is \"deprecated\""`)
		w.Header().Add("Warning", `299 agent "two", 199 - "three"`)
		w.Header().Add("Warning", `not a warning`)
		switch {
		case refused:
			answer(w, http.StatusForbidden, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
		case r.URL.Query().Get("watch") != "":
			answer(w, http.StatusOK, "application/json", "")
		default:
			answer(w, http.StatusOK, "application/json", podList)
		}
	}
	var named, withContext, byDefault recordedWarnings
	rest.SetDefaultWarningHandler(&byDefault)
	defer rest.SetDefaultWarningHandlerWithContext(rest.WarningLogger{})
	for name, set := range map[string]func(*rest.Config){
		"none":         func(*rest.Config) {},
		"handler":      func(c *rest.Config) { c.WarningHandler = &named },
		"with context": func(c *rest.Config) { c.WarningHandlerWithContext = &withContext },
		"both":         func(c *rest.Config) { c.WarningHandler, c.WarningHandlerWithContext = &named, &withContext },
	} {
		var theirs corev1.PodInterface
		ours := serve(t, h, source.Options{}, func(cfg *rest.Config, _ *source.Resource) {
			set(cfg)
			theirs = corev1.NewForConfigOrDie(cfg).Pods("n")
		})
		all := func() [3][]string { return [3][]string{named.take(), withContext.take(), byDefault.take()} }
		for _, refused = range []bool{false, true} {
			for verb, do := range map[string][2]func() error{
				"LIST": {
					func() error { _, err := theirs.List(t.Context(), metav1.ListOptions{}); return err },
					func() error {
						l, err := ours.List(t.Context(), metav1.ListOptions{})
						if err == nil {
							err = l.Close()
						}
						return err
					},
				},
				"WATCH": {
					func() error {
						w, err := theirs.Watch(t.Context(), metav1.ListOptions{})
						if err == nil {
							w.Stop()
						}
						return err
					},
					func() error {
						w, err := ours.Watch(t.Context(), metav1.ListOptions{})
						if err == nil {
							err = w.Close()
						}
						return err
					},
				},
			} {
				var seen [2][3][]string
				for i, send := range do {
					if err := send(); apierrors.IsForbidden(err) != refused || err != nil && !refused {
						t.Fatalf("%s, %s: %v", name, verb, err)
					}
					seen[i] = all()
				}
				if !slices.EqualFunc(seen[0][:], seen[1][:], slices.Equal) {
					t.Errorf("%s, %s, refused %v: handlers get %q, with client-go %q", name, verb, refused, seen[1], seen[0])
				}
				if got := strings.Join(slices.Concat(seen[1][:]...), " "); !strings.Contains(got, `v1 Things is "deprecated"`) {
					t.Errorf("%s, %s: %s", name, verb, got)
				}
			}
		}
	}
}
