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
	sideFloor    = "floor"   // reads the bytes and discards them
	sideExtract  = "extract" // a hand-made cache of the objects that meta.ExtractList returns
)

// contender is a side of a measurement, in one of its modes.
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

// contendersOf returns the contenders of a verb in the order of a round. Odd rounds have the
// reverse order, so that a contender does not always run after the same one. A contender may leave
// the machine in a state that changes the next result, such as a warm file cache or a throttled
// processor.
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

// spec tells a contender process what to measure. It contains only those options that apply to the
// verb.
type spec struct {
	Options
	Side      string
	Verb      string
	Stub      string
	Informers int           // the number of informers of the same pods; 0: one
	Stretch   float64       // the resync period, in multiples of Period; 0 means 1
	Every     time.Duration // the time between samples of a trace; 0: no trace

	server *weir.ServerGroup // shared by all informers, like those of one factory
}

// spec returns the spec for the contenders of a verb.
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
	if !v.takes(TakesChange) {
		s.Changes = nil
	} else if len(o.Changes) == 0 {
		s.Changes = []string{ChangeMix}
	}
	return s
}

// flags returns the flags that a result must name, because the result's name does not imply them.
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
