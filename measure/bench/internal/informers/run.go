package informers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Options say what to measure and where. Server or Args lead children to the server, and Config
// leads this process to the same one. Contenders receive them as JSON.
type Options struct {
	Config *rest.Config `json:"-"`
	Server string       // its URL, if it asks for no credentials; empty: children take Args
	Args   []string     // flags that lead a child to it

	Population   string        // of the server, for the result to name; empty: the usual one
	DropIn       bool          // weir's side is its drop-in, and handlers take objects
	Runs         int           // of each contender; 0: the verb's own
	Unstructured bool          // as unstructured, from JSON
	Custom       bool          // a stub's pods are custom resources
	Transform    bool          // drop managedFields
	Unwrapped    bool          // of the drop-in: on clients that were not made for it
	Handlers     int           // of the informer; 0: one
	Changes      []string      // that a stub makes, in turn; none: a mix
	Objects      int           // that a stub holds
	Duration     time.Duration // of what is measured for a time; 0: the verb's own
	Relists      int
	Period       time.Duration // of the resync

	Progress io.Writer `json:"-"` // gets a line for each run
}

// The suffixes that a result's name has behind the verb's.
const (
	dropInSuffix       = "-dropin"
	unstructuredSuffix = "-unstructured"
)

// patience bounds one run of one contender, beyond the time that its options ask for.
const patience = 10 * time.Minute

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
		stub, at, err := stubFor(ctx, s)
		if err != nil {
			return Result{}, err
		}
		defer stub.Stop()
		s.Stub = at
	}
	if s.Unstructured {
		name += unstructuredSuffix
	}
	n := cmp.Or(o.Runs, v.Runs)
	runs := map[contender][]Figures{}
	for i := range n {
		for _, c := range contendersOf(v, i) {
			f, _, err := runOne(ctx, c, s)
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

// stubFor starts the stub that a verb is measured on, and returns it with its URL. The caller must
// stop it.
func stubFor(ctx context.Context, s spec) (stub *process.Child, url string, err error) {
	stub, err = process.Start(ctx, roleStub, s.Args, nil, StubSpec{Server: s.Server, Objects: s.Objects, JSON: s.Unstructured, Custom: s.Custom,
		Lifecycle: slices.Contains(s.Changes, ChangeLifecycle)})
	if err != nil {
		return nil, "", err
	}
	var at listening
	if err := stub.Receive(&at); err != nil {
		stub.Stop()
		return nil, "", err
	}
	return stub, at.URL, nil
}

// runOne runs one contender once, in a process of its own. traced is set only if s asks for a
// trace.
func runOne(ctx context.Context, c contender, s spec) (f Figures, traced figures.Trace, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience+s.Duration*time.Duration(max(1, len(s.Changes)))+2*s.Period)
	defer cancel()
	if s.Stub != "" {
		if err := tell(ctx, s.Stub, order{Do: doHold}); err != nil {
			return nil, traced, err
		}
	}
	s.Side = c.side
	p, err := process.Start(ctx, roleContender, s.Args, c.env(), s)
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

// Replay is a verb whose contenders are traced, once each.
type Replay struct {
	Verb  string
	Sides []Side
	Every time.Duration // between samples
}

// Side is a contender of a Replay. The zero value is client-go's informer with its defaults.
type Side struct {
	Label   string
	Weir    bool // weir's informer, or with DropIn its drop-in
	DropIn  bool
	List    bool    // of client-go's: with LISTs in the place of WATCHes that send the state
	Extract bool    // a cache made by hand, of what meta.ExtractList gives
	Stretch float64 // its resync period is as many times the Replay's; 0: once
}

// contender returns the contender that measures the side.
func (s Side) contender() contender {
	switch {
	case s.Weir:
		return contender{side: sideWeir}
	case s.Extract:
		return contender{side: sideExtract}
	case s.List:
		return contender{sideClientgo, modeList}
	}
	return contender{sideClientgo, modeWatchList}
}

// Run runs the sides in turn, each in a process of its own, and calls done for each. The first
// error ends it.
func (r Replay) Run(ctx context.Context, o Options, done func(figures.Traced)) error {
	v, ok := verbNamed(r.Verb)
	if !ok {
		return fmt.Errorf("no such verb: %q", r.Verb)
	}
	s := o.spec(v)
	s.Every = r.Every
	if v.Stub {
		stub, at, err := stubFor(ctx, s)
		if err != nil {
			return err
		}
		defer stub.Stop()
		s.Stub = at
	}
	for _, side := range r.Sides {
		one := s
		one.DropIn, one.Stretch = side.DropIn, side.Stretch
		f, traced, err := runOne(ctx, side.contender(), one)
		if err != nil {
			return fmt.Errorf("%s: %w", side.Label, err)
		}
		done(figures.Traced{Label: side.Label, Figures: f, Trace: traced})
	}
	return nil
}
