package informers

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/bench/internal/trace"
	"github.com/weirproject/weir/internal/child"
	"github.com/weirproject/weir/internal/populations/names"
)

// Options say what to measure and where. Server or Args lead children to the server, and Config
// leads this process to the same one.
type Options struct {
	Config *rest.Config
	Server string   // its URL, if it asks for no credentials; empty: children take Args
	Args   []string // flags that lead a child to it

	Population   string        // of the server, for the result to name; empty: the usual one
	DropIn       bool          // measure the drop-in in the place of weir's own informer
	Runs         int           // of each contender; 0: the verb's own
	Unstructured bool          // as unstructured, from JSON
	Transform    bool          // drop managedFields
	Unwrapped    bool          // of the drop-in: on clients that were not made for it
	Handlers     int           // of the informer; 0: one
	Changes      []string      // that a stub makes, in turn; none: a mix
	Objects      int           // that a stub holds
	Duration     time.Duration // of what is measured for a time; 0: the verb's own
	Relists      int
	Period       time.Duration // of the resync

	Progress io.Writer // gets a line for each run
}

// The suffixes that a result's name has behind the verb's.
const (
	dropInSuffix       = "-dropin"
	unstructuredSuffix = "-unstructured"
)

// patience bounds one run of one contender, beyond what it is told to take.
const patience = 10 * time.Minute

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

// Check checks that the server lets us list pods and has any. Without that, contenders would wait
// for what will never come.
func Check(ctx context.Context, cfg *rest.Config) error {
	_, err := Count(ctx, cfg)
	return err
}

// Count returns how many pods the server has. It LISTs the first of them and adds how many remain,
// as the server says. If there are none, it returns an error.
func Count(ctx context.Context, cfg *rest.Config) (int, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 20 * time.Second
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return 0, err
	}
	pods, err := client.CoreV1().Pods(corev1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	if len(pods.Items) == 0 {
		return 0, errNoModels
	}
	return len(pods.Items) + int(ptr.Deref(pods.RemainingItemCount, 0)), nil
}

// Run runs one verb: all contenders in turn, several times. It only reads from the server. The
// first error ends it.
func Run(ctx context.Context, v Verb, o Options) (Result, error) {
	name := v.Name
	if o.DropIn {
		v = v.DropIn()
		name += dropInSuffix
	}
	s := o.spec(v)
	if v.Stub {
		stub, at, err := stubFor(ctx, o, s)
		if err != nil {
			return Result{}, err
		}
		defer stub.Stop()
		s.Stub = at
	}
	if s.Unstructured {
		name += unstructuredSuffix
	}
	n := v.Runs
	if o.Runs > 0 {
		n = o.Runs
	}
	runs := map[contender][]Figures{}
	for i := range n {
		for _, c := range contendersOf(v, i) {
			f, _, err := runOne(ctx, c, s, o.Args)
			if err != nil {
				return Result{}, fmt.Errorf("%s: %s: %w", name, c, err)
			}
			runs[c] = append(runs[c], f)
			fmt.Fprintf(o.Progress, "%s %d/%d  %-20s %s\n", name, i+1, n, c, figures.Headline(f, v.figures))
		}
	}
	r := newResult(name, v, runs)
	r.Flags = s.flags()
	return r, nil
}

// spec returns the options as they are told to a contender. Options that only some verbs take are
// left out unless v takes them.
func (o Options) spec(v Verb) spec {
	s := spec{
		Verb: v.Name, Server: o.Server, Population: o.Population, DropIn: o.DropIn, Objects: o.Objects, Duration: v.Duration, Relists: o.Relists,
		Unstructured: o.Unstructured && v.takes(TakesUnstructured),
		Transform:    o.Transform && v.takes(TakesTransform),
		Unwrapped:    o.Unwrapped && v.takes(TakesUnwrapped),
	}
	if o.Duration > 0 {
		s.Duration = o.Duration
	}
	if v.Name == "resync" {
		s.Period = o.Period
	}
	if v.takes(TakesHandlers) {
		s.Handlers = max(1, o.Handlers)
	}
	if v.takes(TakesChange) {
		if s.Changes = o.Changes; len(s.Changes) == 0 {
			s.Changes = []string{ChangeMix}
		}
	}
	return s
}

// flags returns the flags that a result names: those that its name does not tell.
func (s spec) flags() (flags []string) {
	if s.Population != "" && s.Population != names.Alike {
		flags = append(flags, "--population "+s.Population)
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

// stubFor starts the stub that a verb is measured on, and returns it with its URL. The caller must
// stop it.
func stubFor(ctx context.Context, o Options, s spec) (stub *child.Process, url string, err error) {
	stub, err = child.Start(ctx, roleStub, o.Args, nil, StubSpec{Server: o.Server, Objects: o.Objects, JSON: s.Unstructured})
	if err != nil {
		return nil, "", err
	}
	var at ready
	if err := stub.Receive(&at); err != nil {
		stub.Stop()
		return nil, "", err
	}
	return stub, at.URL, nil
}

// runOne runs one contender once, in a process of its own. traced is set only if s asks for a
// trace.
func runOne(ctx context.Context, c contender, s spec, args []string) (f Figures, traced trace.Trace, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience+s.Duration*time.Duration(max(1, len(s.Changes)))+2*s.Period)
	defer cancel()
	if s.Stub != "" {
		if err := tell(ctx, s.Stub, order{Do: doHold}); err != nil {
			return nil, traced, err
		}
	}
	s.Side = c.side
	p, err := child.Start(ctx, roleContender, args, c.env(), s)
	if err != nil {
		return nil, traced, err
	}
	err = p.Receive(&f)
	if err == nil && s.Every > 0 {
		err = p.Receive(&traced)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, traced, err
	}
	return f, traced, p.Stop()
}
