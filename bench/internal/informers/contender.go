package informers

import "slices"

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
// backwards, so that nobody always runs on what another has left of a machine: a warm file cache, a
// processor that is throttled.
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
