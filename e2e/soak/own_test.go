package soak

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownEvery is how often an API server is asked whether its own watch cache is current.
const ownEvery = 100 * time.Millisecond

// startOwn measures how long the API servers themselves take, after the last fault, until their
// watch caches have the wanted state: no informer that is connected to one can be current earlier.
// The returned function ends that, and returns the times by resource, for each server; for a server
// that is not current by then, the time is that long.
func (w *world) startOwn(ctx context.Context, over time.Time, want *state) func() map[string][]time.Duration {
	ctx, cancel := context.WithCancel(ctx)
	took := map[string][]time.Duration{"configmaps": make([]time.Duration, len(w.servers)), "widgets": make([]time.Duration, len(w.servers))}
	var asking sync.WaitGroup
	for of, times := range took {
		for i := range times {
			asking.Go(func() {
				tick := time.NewTicker(ownEvery)
				defer tick.Stop()
				for !maps.Equal(w.cached(ctx, i, of), want.objects[of]) && ctx.Err() == nil {
					select {
					case <-tick.C:
					case <-ctx.Done():
					}
				}
				times[i] = time.Since(over)
			})
		}
	}
	return func() map[string][]time.Duration {
		cancel()
		asking.Wait()
		took[pairs] = took["configmaps"]
		return took
	}
}

// cached is what an API server's watch cache has; nil if it does not answer.
func (w *world) cached(ctx context.Context, server int, of string) map[string]version {
	out := map[string]version{}
	options := metav1.ListOptions{ResourceVersion: "0"}
	if of == "widgets" {
		list, err := w.dynamic(w.servers[server].Config()).Resource(widgets).List(ctx, options)
		if err != nil {
			return nil
		}
		for i := range list.Items {
			if o := &list.Items[i]; compared(o.GetNamespace() + "/" + o.GetName()) {
				out[o.GetNamespace()+"/"+o.GetName()] = versionOf(o)
			}
		}
		return out
	}
	list, err := w.admin(server).CoreV1().ConfigMaps(corev1.NamespaceAll).List(ctx, options)
	if err != nil {
		return nil
	}
	for i := range list.Items {
		if o := &list.Items[i]; compared(o.Namespace + "/" + o.Name) {
			out[o.Namespace+"/"+o.Name] = versionOf(o)
		}
	}
	return out
}

// putOff is until when a subject is to wait because an answer said so, or a proxy.
func (w *world) putOff(s *subject) time.Time {
	until := s.requests.putOffUntil()
	if asked := w.proxiesPutOff(); s.way != ways[0] && asked.After(until) {
		return asked
	}
	return until
}

// putOffByServer is until when an API server has asked a subject to wait. A proxy's own answers do
// not count.
func (w *world) putOffByServer(s *subject) time.Time {
	until := s.requests.putOffUntil()
	if asked := w.proxiesPutOff(); s.way != ways[0] && asked.Before(until) {
		return asked
	}
	return until
}

// proxiesPutOff is until when a proxy is to wait because an API server said so.
func (w *world) proxiesPutOff() (until time.Time) {
	for _, asked := range w.asked {
		if at := asked.putOffUntil(); at.After(until) {
			until = at
		}
	}
	return until
}

// serversOf reports which API servers a subject is connected to, or the proxies before them.
func (w *world) serversOf(s *subject) []bool {
	if s.way == ways[0] {
		return w.line.targets(s.way+"/"+s.name+"/"+s.of, len(w.servers))
	}
	out := make([]bool, len(w.servers))
	for i := range w.proxies {
		for server, connected := range w.line.targets(ways[0]+"/"+proxyName(i), len(w.servers)) {
			out[server] = out[server] || connected
		}
	}
	return out
}

// heldUp is how long the slowest of the servers took that a subject was connected to, when the last
// fault was over or when it was current.
func heldUp(took []time.Duration, before, after []bool) (most time.Duration) {
	for i, t := range took {
		if before[i] || len(after) > i && after[i] {
			most = max(most, t)
		}
	}
	return most
}
