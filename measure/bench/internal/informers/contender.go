package informers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// The contenders.
const (
	sideWeir     = "weir"
	sideClientgo = "clientgo"
	sideFloor    = "floor"   // reads the bytes and throws them away
	sideExtract  = "extract" // a cache made by hand of what meta.ExtractList gives
)

// contender is a side that takes part, in one of its modes.
type contender struct {
	side, mode string
}

func (c contender) String() string {
	switch {
	case c.side == sideFloor:
		return "floor"
	case c.mode != "":
		return "client-go/" + c.mode
	}
	return c.side
}

// env returns the environment variables that set client-go's mode, or nil if the contender has no
// mode.
func (c contender) env() []string {
	switch c.mode {
	case modeList:
		return []string{"KUBE_FEATURE_WatchListClient=false"}
	case modeWatchList:
		return []string{"KUBE_FEATURE_WatchListClient=true"}
	}
	return nil
}

// contendersOf returns the contenders of a verb in the order of a round. Every second round goes
// backwards, so that no contender always runs on what another has left of a machine: a warm file
// cache, a processor that is throttled.
func contendersOf(v Verb, round int) []contender {
	all := []contender{{side: sideWeir}}
	for _, mode := range v.modes {
		all = append(all, contender{sideClientgo, mode})
	}
	if v.Name == "sync" {
		all = append(all, contender{side: sideFloor})
	}
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

// spec tells a contender what to measure. Those of the options are set that its verb takes.
type spec struct {
	Options
	Side      string
	Verb      string
	Stub      string
	Informers int           // as many of the same pods; 0: one
	Stretch   float64       // the resync period is as many times Period; 0: once
	Every     time.Duration // between the samples of a trace; 0: there is none

	server *weir.ServerGroup // that all informers share, as those of one factory do
}

// spec returns what a contender of a verb receives.
func (o Options) spec(v Verb) spec {
	s := spec{Options: o, Verb: v.Name}
	s.Unstructured = o.Unstructured && v.takes(TakesUnstructured)
	s.Custom = o.Custom && v.takes(TakesCustom)
	s.Transform = o.Transform && v.takes(TakesTransform)
	s.Unwrapped = o.Unwrapped && v.takes(TakesUnwrapped)
	s.Duration = cmp.Or(o.Duration, v.Duration)
	if v.Name != "resync" {
		s.Period = 0
	}
	if s.Handlers = max(1, o.Handlers); !v.takes(TakesHandlers) {
		s.Handlers = 0
	}
	switch {
	case !v.takes(TakesChange):
		s.Changes = nil
	case len(o.Changes) == 0:
		s.Changes = []string{ChangeMix}
	}
	return s
}

// flags returns the flags that a result names: those that its name does not tell.
func (s spec) flags() (flags []string) {
	if s.Population != "" && s.Population != podsim.Alike {
		flags = append(flags, "--population "+s.Population)
	}
	if s.Custom {
		flags = append(flags, "--custom")
	}
	if s.Transform {
		flags = append(flags, "--transform")
	}
	if s.Unwrapped {
		flags = append(flags, "--unwrapped")
	}
	if s.Handlers > 1 {
		flags = append(flags, fmt.Sprintf("--handlers %d", s.Handlers))
	}
	if len(s.Changes) > 0 && !slices.Equal(s.Changes, []string{ChangeMix}) {
		flags = append(flags, "--change "+strings.Join(s.Changes, ","))
	}
	return flags
}
