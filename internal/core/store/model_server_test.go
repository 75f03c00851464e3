package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// modelServer is the server: all changes that it made, each with a separate resourceVersion.
type modelServer struct {
	rnd    *rand.Rand
	rv     int
	uid    int
	format int // the format of the bytes: when it changes, the bytes of every version change
	past   []serverChange
	now    map[string]*corev1.Pod // the current state; nil: not computed yet
}

// serverChange is one write, which replaces the old version (was) by the new version (is). One of
// them may be nil.
type serverChange struct {
	rv      int
	was, is *corev1.Pod
}

// at returns the state at version rv, by key.
func (s *modelServer) at(rv int) map[string]*corev1.Pod {
	if rv >= s.rv && s.now != nil {
		return maps.Clone(s.now)
	}
	state := map[string]*corev1.Pod{}
	for _, c := range s.past {
		switch {
		case c.rv > rv:
			return state
		case c.is == nil:
			delete(state, keyOf(c.was))
		default:
			state[keyOf(c.is)] = c.is
		}
	}
	return state
}

// write makes one change of one of a few keys.
func (s *modelServer) write() {
	s.rv += 1 + s.rnd.IntN(3)
	ns, name := []string{"a", "b"}[s.rnd.IntN(2)], "p"+strconv.Itoa(s.rnd.IntN(12))
	if s.now == nil {
		s.now = s.at(s.rv)
	}
	was := s.now[ns+"/"+name]
	c := serverChange{rv: s.rv, was: was}
	switch n := s.rnd.IntN(8); {
	case was != nil && n < 2:
	case was != nil:
		c.is = s.pod(ns, name, string(was.UID))
	default:
		s.uid++
		c.is = s.pod(ns, name, fmt.Sprintf("00000000-0000-4000-8000-%012x", s.uid))
	}
	s.past = append(s.past, c)
	if s.now[ns+"/"+name] = c.is; c.is == nil {
		delete(s.now, ns+"/"+name)
	}
}

// pod returns a version with labels that decide which writers see it.
func (s *modelServer) pod(ns, name, uid string) *corev1.Pod {
	labels := map[string]string{}
	for _, l := range []string{"x", "y"} {
		if s.rnd.IntN(2) == 0 {
			labels[l] = "1"
		}
	}
	if n := s.rnd.IntN(5); n > 0 {
		labels["app"] = "app-" + strconv.Itoa(n)
	}
	node := ""
	if s.rnd.IntN(3) > 0 {
		node = "node-" + strconv.Itoa(s.rnd.IntN(100))
	}
	pod := smallPod(ns, name, 0, s.rv, labels, node)
	pod.UID = podUID(uid)
	return pod
}

// sent returns a version as the server writes it now.
func (s *modelServer) sent(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Annotations = map[string]string{"format": strconv.Itoa(s.format)}
	return pod
}

// restore undoes the newest changes. Later changes may have the same resourceVersions.
func (s *modelServer) restore() {
	s.now, s.rv = nil, max(1, s.rv-s.rnd.IntN(40))
	s.past = slices.DeleteFunc(s.past, func(c serverChange) bool { return c.rv > s.rv })
}

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func versionOf(pod *corev1.Pod) int {
	rv, _ := strconv.Atoi(pod.ResourceVersion)
	return rv
}
