package pack

import (
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// groups contains packed objects of several workloads.
type groups struct {
	packer  *Packer
	objects []member
	bytes   int
}

type member struct {
	name Name
	held
}

// newGroups packs the pods of n workloads of a simulation.
func newGroups(tb testing.TB, sim *podsim.Pods, n int) *groups {
	tb.Helper()
	s := &groups{packer: New()}
	const replicas = 20
	for w := range n {
		for i := range replicas {
			pod := sim.Pod(w*(sim.Len()/replicas/n)*replicas + i)
			pod.ResourceVersion = "123456"
			raw := withoutUID(tb, wire.Protobuf, podsim.Encode(wire.Protobuf.String(), pod))
			s.add(Name{pod.Namespace + "/" + pod.GenerateName, pod.Name}, raw)
		}
	}
	return s
}

// pack packs an object as the store does, but does not add it to s.
func (s *groups) pack(name Name, raw []byte) member {
	packed, d := s.packer.PackSibling(nil, raw, name)
	m := member{name, held{raw, string(packed), d}}
	s.packer.Note(name, d, m.packed, len(raw))
	s.packer.Observe(raw)
	return m
}

// add packs an object and adds it to s.
func (s *groups) add(name Name, raw []byte) *member {
	m := s.pack(name, raw)
	s.objects, s.bytes = append(s.objects, m), s.bytes+len(m.packed)
	return &s.objects[len(s.objects)-1]
}

// base returns the base of an object, or nil.
func (m *member) base() *base {
	if m.dict == nil {
		return nil
	}
	return m.dict.base
}
