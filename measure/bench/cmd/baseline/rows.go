package main

// row is one measurement: a run of weir-bench, or of another project's program.
type row struct {
	name    string   // also the name of its file
	args    []string // of weir-bench
	cluster bool     // measure on a kube-apiserver instead of the embedded server
	program string   // of make programs; instead of args
	figures []figure
}

// figure is a ratio to client-go in the same run, or the ratio of a changed program to the
// unchanged one. It must not be worse than its limit. If it has no limit, it may be worse than the
// baseline by the slack of its kind.
type figure struct {
	key       string // its key in the results of weir-bench
	label     string
	kind      kind
	published string
	limit     float64 // 0: no limit
}

// kind is the kind of a figure, which determines how much the figure may change.
type kind uint8

const (
	memory kind = iota
	effort      // CPU or time
	rate        // events or calls per second: more is better
)

// slack is the factor by which a figure may be worse than the baseline.
var slack = [...]float64{memory: 1.15, effort: 1.25, rate: 1.2}

// bound returns the limit of a figure. It returns false if the figure sets no limit and the
// baseline lacks the figure.
func (f figure) bound(baseline float64, recorded bool) (float64, bool) {
	switch {
	case f.limit != 0:
		return f.limit, true
	case !recorded:
		return 0, false
	case f.kind == rate:
		return baseline / slack[rate], true
	}
	return baseline * slack[f.kind], true
}

// keeps reports whether a value is within a limit (bound).
func (f figure) keeps(value, bound float64) bool {
	if f.kind == rate {
		return value >= bound
	}
	return value <= bound
}

// rows are all measurements. The rows on a kube-apiserver come first, so that the kube-apiserver
// can be stopped before the other rows.
var rows = []row{
	{
		name: "dropin-similar-sync", cluster: true, args: []string{"sync", "--dropin"},
		figures: []figure{
			{"heapBytes", "drop-in, similar pods: heap", memory, "0.038", 0.05},
			{"peakRSSBytes", "peak RSS of the first sync", memory, "0.094", 0.12},
			{"cpuSeconds", "CPU to sync", effort, "0.36", 0},
			{"syncSeconds", "time to sync", effort, "0.46", 0},
		},
	}, {
		name: "typed-similar-sync-cluster", cluster: true, args: []string{"sync"},
		figures: []figure{
			{"cpuSeconds", "typed API, similar pods on kube-apiserver: CPU to sync", effort, "0.35", 0},
			{"peakRSSBytes", "peak RSS of the first sync", memory, "0.070", 0},
			{"heapBytes", "heap", memory, "0.038", 0},
		},
	}, {
		name: "dropin-similar-watch", args: []string{"watch", "--dropin", "--change", "mix,version"},
		figures: []figure{
			{"mixEventsPerSecond", "drop-in, similar pods: handler calls/s", rate, "1.6 to 2.2", 1.6},
			{"versionEventsPerSecond", "where only the resourceVersion changes", rate, "1.72", 0},
		},
	}, {
		name: "dropin-dissimilar-sync", args: []string{"sync", "--dropin", "--population", "unlike"},
		figures: []figure{
			{"heapBytes", "drop-in, dissimilar pods: heap", memory, "0.057", 0.10},
			{"peakRSSBytes", "peak RSS of the first sync", memory, "0.10", 0.14},
			{"cpuSeconds", "CPU to sync", effort, "0.74 to 0.88", 0},
			{"syncSeconds", "time to sync", effort, "0.67 to 0.76", 0},
		},
	}, {
		name: "dropin-dissimilar-watch", args: []string{"watch", "--dropin", "--population", "unlike"},
		figures: []figure{{"eventsPerSecond", "drop-in, dissimilar pods: handler calls/s", rate, "0.93 to 1.03", 0.9}},
	}, {
		name: "typed-similar-sync", args: []string{"sync"},
		figures: []figure{
			{"cpuSeconds", "typed API, similar pods on the embedded server: CPU to sync", effort, "0.15", 0},
			{"syncSeconds", "time to sync", effort, "0.21", 0},
		},
	}, {
		name: "typed-similar-watch", args: []string{"watch", "--change", "version"},
		figures: []figure{{"eventsPerSecond", "typed API, similar pods: events/s", rate, "5.0", 4.5}},
	}, {
		name: "typed-similar-relist", args: []string{"relist"},
		figures: []figure{{"cpuSeconds", "typed API, similar pods: relist CPU", effort, "0.08", 0}},
	}, {
		name: "dropin-similar-lifecycle", args: []string{"watch", "--dropin", "--change", "lifecycle"},
		figures: lifecycleFigures("drop-in, similar pods"),
	}, {
		name: "typed-similar-lifecycle", args: []string{"watch", "--change", "lifecycle"},
		figures: lifecycleFigures("typed API, similar pods"),
	}, {
		name: "kube-scheduler", program: "kube-scheduler",
		figures: []figure{
			{programPeak, "kube-scheduler with ShareDecoded: peak RSS", memory, "0.56", 0.6},
			{programCPU, "CPU", effort, "", 0},
		},
	}, {
		name: "kube-controller-manager", program: "kube-controller-manager",
		figures: []figure{
			{programPeak, "kube-controller-manager with ShareDecoded: peak RSS", memory, "0.53", 0.6},
			{programCPU, "CPU", effort, "", 0},
		},
	},
}

func lifecycleFigures(of string) []figure {
	return []figure{
		{"rolloutSeconds", of + ": until a rollout is handled", effort, "", 0},
		{"rolloutCPUSeconds", "CPU of a rollout", effort, "", 0},
		{"peakRSSBytes", "peak RSS", memory, "", 0},
		{"heapBytes", "heap after rollouts", memory, "", 0},
	}
}

// The keys of a program's figures.
const (
	programPeak = "peakRSSBytes"
	programCPU  = "cpuSeconds"
)
