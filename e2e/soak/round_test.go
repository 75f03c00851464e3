package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// lost is the time after the last fault from which a missing object counts as lost.
	lost = time.Minute
	// look is the time between two checks of the subjects after the last fault.
	look = 20 * time.Millisecond
	// restoredFor is how long objects are written after a restore: once before and once after the
	// earlier resourceVersions are reached again.
	restoredFor = 8 * time.Second
)

// state is the state of a server according to a quorum LIST.
type state struct {
	objects map[string]map[string]version // by the kind of objects of the subjects
	whole   map[string]*corev1.ConfigMap
}

// truth lists everything from one API server, without relays or proxies. Nothing may be written
// meanwhile.
func (w *world) truth(ctx context.Context) *state {
	w.t.Helper()
	st := &state{objects: map[string]map[string]version{"configmaps": {}, pairs: {}, "widgets": {}}, whole: map[string]*corev1.ConfigMap{}}
	for _, ns := range namespaces {
		list, err := w.admin(0).CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		w.fatal(err)
		for i := range list.Items {
			o := &list.Items[i]
			key := o.Namespace + "/" + o.Name
			st.objects["configmaps"][key], st.whole[key] = versionOf(o), o
			if paired(o) {
				st.objects[pairs][key] = versionOf(o)
			}
		}
		custom, err := w.dynamic(w.servers[0].Config()).Resource(widgets).Namespace(ns).List(ctx, metav1.ListOptions{})
		w.fatal(err)
		for i := range custom.Items {
			o := &custom.Items[i]
			st.objects["widgets"][o.GetNamespace()+"/"+o.GetName()] = versionOf(o)
		}
	}
	return st
}

// paired reports whether an object is in one of the two namespaces and matches one of the two
// selectors.
func paired(o *corev1.ConfigMap) bool {
	return slices.Contains(pairNamespaces, o.Namespace) && slices.ContainsFunc(pairSelectors, func(s string) bool {
		selector, err := labels.Parse(s)
		return err == nil && selector.Matches(labels.Set(o.Labels))
	})
}

// round runs one round: 20 to 30 seconds of faults while objects are written, and then the wait
// until all subjects are current.
func (w *world) round(ctx context.Context, number int, length time.Duration, c *churn, f *faults, subjects []*subject, backup bool) {
	w.t.Helper()
	w.note("round %d", number)
	for _, s := range subjects {
		s.seen.count()
	}
	before := c.written.Load()
	c.start(ctx)
	if backup {
		w.fatal(w.cluster.Backup(ctx))
		w.note("etcd is backed up")
	}
	f.run(ctx, length)
	for _, s := range subjects {
		s.result.Versions = append(s.result.Versions, s.seen.stop())
	}
	took, held := w.settle(ctx, fmt.Sprintf("round %d (%d writes)", number, c.written.Load()-before), c, subjects)
	for i, s := range subjects {
		s.result.Current = append(s.result.Current, took[i].Seconds())
		s.result.HeldUp = append(s.result.HeldUp, held[i].Seconds())
	}
}

// slow is the tolerated delay: a subject that becomes current later than that, after both the
// control and the subject's own servers, is logged.
const slow = time.Second

// controlOf returns the index of client-go's subject with the same way and objects as s. It returns
// -1 if there is none, or if s is itself a control.
func controlOf(s *subject, subjects []*subject) int {
	return slices.IndexFunc(subjects, func(o *subject) bool {
		return o.control && !s.control && o.way == s.way && o.of == s.of && o.result.plain() == s.result.plain()
	})
}

// never is the recorded time of a subject that was not current in time.
const never = -time.Second

// settle waits, after the last fault, until every subject's objects and handler states equal the
// server's. It returns how long each subject took, and how long its servers delayed it, see heldUp.
func (w *world) settle(ctx context.Context, name string, c *churn, subjects []*subject) (took, held []time.Duration) {
	w.t.Helper()
	over := time.Now()
	held = make([]time.Duration, len(subjects))
	servers := make([][]bool, len(subjects))
	for i, s := range subjects {
		held[i], servers[i] = max(0, w.putOff(s).Sub(over)), w.serversOf(s)
		if s.settle != nil {
			s.settle()
		}
	}
	c.stop()
	want := w.truth(ctx)
	own := w.startOwn(ctx, over, want)
	took = w.wait(ctx, over, want, subjects)
	current := own()
	for i, s := range subjects {
		held[i] = min(max(held[i], w.putOffByServer(s).Sub(over), heldUp(current[s.of], servers[i], s.servers)), took[i])
		if took[i] == never && !s.lost {
			s.lost = true
			w.problem(s, fmt.Sprintf("%v: not current %v after the last fault: %s\n  %s\n  by its handlers\n  %s\n  it asked for\n    %v", s, lost, s.trouble(),
				difference(want.objects[s.of], s.objects(), s.tellings), difference(want.objects[s.of], s.told(), s.tellings), s.requests))
		}
		if j := controlOf(s, subjects); j >= 0 && took[j] != never && took[i] > max(took[j], held[i])+slow {
			w.t.Logf("%s: %v was current %v after the last fault at %.3fs, for %v of which its servers held it up; until then it asked for\n    %v\n  the control was current after %v, and asked for\n    %v",
				name, s, took[i], over.Sub(w.begun).Seconds(), held[i], s.asked, took[j], subjects[j].asked)
		}
		s.check(w, want, took[i] != never)
	}
	w.progress("%s: %s", name, summary(subjects, took))
	w.tell(name)
	return took, held
}

// wait polls all subjects until they are current, and returns how long each took. It does not wait
// for a subject that was lost in an earlier round.
func (w *world) wait(ctx context.Context, over time.Time, want *state, subjects []*subject) []time.Duration {
	ctx, cancel := context.WithDeadline(ctx, over.Add(lost))
	defer cancel()
	took := make([]time.Duration, len(subjects))
	var waited sync.WaitGroup
	for i, s := range subjects {
		waited.Go(func() {
			tick := time.NewTicker(look)
			defer tick.Stop()
			for took[i] = never; ; {
				if s.holds(want) {
					took[i], s.lost, s.asked, s.servers = time.Since(over), false, s.requests.String(), w.serversOf(s)
				}
				if took[i] != never || s.lost || ctx.Err() != nil {
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	waited.Wait()
	return took
}

// holds reports whether the subject is current: its objects and its handlers' states equal want.
func (s *subject) holds(want *state) bool {
	return maps.Equal(s.objects(), want.objects[s.of]) && maps.Equal(s.told(), want.objects[s.of]) && (s.current == nil || s.current())
}

// check checks the subject for violations of the contract.
func (s *subject) check(w *world, want *state, current bool) {
	for _, h := range s.histories {
		problems, replays, strays := h.take()
		s.result.Replays += replays
		s.result.Strays += strays
		for _, p := range problems {
			w.problem(s, fmt.Sprintf("%s\n  %s\n  it asked for\n    %v", p, s.trouble(), s.requests))
		}
	}
	if s.problems != nil {
		for _, p := range s.problems() {
			w.problem(s, p)
		}
	}
	if !current || s.content == nil || s.of == "widgets" {
		return
	}
	for key, v := range want.objects[s.of] {
		o, err := s.content(key)
		if err != nil || !apiequality.Semantic.DeepEqual(o, want.whole[key]) {
			w.problem(s, fmt.Sprintf("%v: %s at %v is another object than the server's: %v, %v, not %v", s, key, v, o, err, want.whole[key]))
			return
		}
	}
}

// problem records a subject's violation. Violations by client-go's own informers do not fail the
// test, because client-go is the control.
func (w *world) problem(s *subject, text string) {
	s.result.Problems++
	if s.control && s.way == "direct" {
		text = "the control, " + text
	} else {
		w.failed = true
	}
	w.problems = append(w.problems, text)
}

// tell reports the problems since the last call, and the faults and other events meanwhile.
func (w *world) tell(name string) {
	w.t.Helper()
	events := w.takeEvents()
	if len(w.problems) == 0 {
		return
	}
	text := fmt.Sprintf("%s:\n%s\nwhat was done to the world:\n  %s", name, strings.Join(w.problems, "\n"), strings.Join(events, "\n  "))
	if w.problems = nil; w.failed {
		w.t.Error(text)
	} else {
		w.t.Log(text)
	}
	w.failed = false
}

// restore restores the server's backup. Writes continue until the earlier resourceVersions are
// reached again. It excludes subjects that wait for versions that will never exist
// (controller-runtime's read-your-writes). The control need not notice the restore.
func (w *world) restore(ctx context.Context, c *churn, subjects []*subject) {
	w.t.Helper()
	before, err := w.cluster.Revision(ctx)
	w.fatal(err)
	sleep(ctx, time.Second) // the last writes must be delivered before the restore
	for _, s := range subjects {
		for _, h := range s.histories {
			h.wentBack(c.number.Load())
		}
	}
	w.fatal(w.cluster.Restore(ctx))
	after, err := w.cluster.Revision(ctx)
	w.fatal(err)
	w.note("etcd is restored: from revision %d back to %d", before, after)
	w.widgetsServed(ctx)
	c.start(ctx)
	sleep(ctx, restoredFor)
	w.fatal(w.cluster.Advance(ctx, before+1))
	w.note("the revisions have come again")
	sleep(ctx, restoredFor)
	all, _ := w.settle(ctx, fmt.Sprintf("restore (from %d back to %d)", before, after), c, subjects)
	for i, took := range all {
		subjects[i].result.Restored = append(subjects[i].result.Restored, took.Seconds())
	}
}
