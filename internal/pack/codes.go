package pack

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/pack/entropy"
)

const (
	// siblingSamples is how many blocks of objects packed against siblings the codes are made of.
	// Until there are so many, objects are packed as if they had no siblings.
	siblingSamples = 32
	// groupSamples bounds the blocks of one group among them, for all but the first codes: the first
	// objects often are all of one group that is not typical.
	groupSamples = 2
	// blockBytes bounds the size of such a block.
	blockBytes = 4 << 10
)

// codes are what blocks of objects against their siblings go through. They belong to a base, like a
// dictionary to what is packed with it.
type codes struct {
	model *entropy.Model // nil: they are being learned
	pool  sync.Pool      // of *siblingScratch
}

type siblingScratch struct {
	coder *entropy.Coder // nil without a model
	block []byte
	base  unpacked // one that is not held
}

func (c *codes) scratch() *siblingScratch {
	if sc, ok := c.pool.Get().(*siblingScratch); ok {
		return sc
	}
	sc := &siblingScratch{}
	if c.model != nil {
		sc.coder = entropy.NewCoder(c.model, nil)
	}
	return sc
}

func (c *codes) put(sc *siblingScratch) { c.pool.Put(sc) }

// learner makes codes. The first are made of the first blocks there are, so that small clusters
// have some. As soon as there are blocks of enough groups it makes better ones of these, and again
// for each new dictionary, which is made when objects are not what they were.
type learner struct {
	codes    atomic.Pointer[codes] // of new bases
	learning atomic.Bool

	mu      sync.Mutex
	samples []sample
}

// sample is a block of an object of a group.
type sample struct {
	group uint64
	block []byte
}

func (l *learner) init() {
	l.codes.Store(&codes{})
	l.learning.Store(true)
}

// relearn learns new codes, for bases that are still to come.
func (l *learner) relearn() { l.learning.Store(true) }

// learn takes a sample if one is needed, and makes codes when there are enough.
func (l *learner) learn(group uint64, block []byte) {
	if !l.learning.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.codes.Load().model == nil
	if !l.learning.Load() || !first && l.of(group) >= groupSamples {
		return
	}
	l.samples = append(l.samples, sample{group, slices.Clone(block[:min(len(block), blockBytes)])})
	if len(l.samples) < siblingSamples {
		return
	}
	blocks := make([][]byte, len(l.samples))
	for i, s := range l.samples {
		blocks[i] = s.block
	}
	l.codes.Store(&codes{model: entropy.Train(blocks...)})
	// The first ones may be of few groups. Then those of each group that count go on.
	all := l.samples
	l.samples = nil
	for _, s := range all {
		if l.of(s.group) < groupSamples {
			l.samples = append(l.samples, s)
		}
	}
	if len(l.samples) == len(all) {
		l.samples = nil
		l.learning.Store(false)
	}
}

// of counts the samples of a group.
func (l *learner) of(group uint64) (n int) {
	for _, s := range l.samples {
		if s.group == group {
			n++
		}
	}
	return n
}

// footprint counts the samples and the newest codes. Older ones, which only bases point to, are as
// large.
func (l *learner) footprint() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.samples {
		n += int64(cap(s.block)) + 32
	}
	if c := l.codes.Load(); c.model != nil {
		n += 2 << 10
	}
	return n
}
