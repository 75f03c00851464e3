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

// Options say what to measure, and on which server. Children use Server or Args, and this process
// uses Config; both lead to the same server. Contenders receive the options as JSON.
type Options struct {
	Config *rest.Config `json:"-"`
	Server string       // the server's URL if it needs no credentials; empty: children use Args
	Args   []string     // flags with which a child finds the server

	Population   string        // of the server, named in the result; empty: the default
	DropIn       bool          // weir's side is its drop-in, and handlers read objects
	Runs         int           // per contender; 0: the verb's default
	Unstructured bool          // objects are unstructured, from JSON
	Custom       bool          // a stub's pods are custom resources
	Transform    bool          // drop managedFields
	Unwrapped    bool          // for the drop-in: its clients are not wrapped
	Handlers     int           // of the informer; 0: one
	Changes      []string      // that a stub makes, one after the other; none: a mix
	Objects      int           // the number of objects of a stub
	Duration     time.Duration // of a measurement that takes a fixed time; 0: the verb's
	Relists      int
	Period       time.Duration // of the resync

	Progress io.Writer `json:"-"` // receives a line for each run
}

// The suffixes of a result's name after the verb's name.
const (
	dropInSuffix       = "-dropin"
	unstructuredSuffix = "-unstructured"
)

// patience limits the time of one run of one contender, in addition to the time that the options
// ask for.
const patience = 10 * time.Minute

// Check returns an error if the server does not allow to list pods, or has no pods. Without that
// check, contenders would wait forever.
func Check(ctx context.Context, cfg *rest.Config) error {
	_, err := Count(ctx, cfg)
	return err
}

// Count returns the number of the server's pods. It LISTs the first pod and adds the number of
// remaining pods from the answer. If there are no pods, it returns an error.
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

// Run runs all contenders of a verb one after the other, several times. It only reads from the
// server. It returns the first error.
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

// stubFor starts the stub for a verb, and returns the stub and its URL. The caller must stop the
// stub.
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

// runOne runs one contender once, in a separate process. traced is set only if s asks for a trace.
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

// Replay is a verb whose contenders run once each, with a trace.
type Replay struct {
	Verb  string
	Sides []Side
	Every time.Duration // the time between samples
}

// Side is a contender of a Replay. The zero value is client-go's informer with its defaults.
type Side struct {
	Label   string
	Weir    bool // weir's informer; if DropIn is set, its drop-in
	DropIn  bool
	List    bool    // for client-go: use LISTs instead of WATCHes with initial events
	Extract bool    // a hand-made cache of the objects that meta.ExtractList returns
	Stretch float64 // the resync period, in multiples of the Replay's; 0 means 1
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

// Run runs the sides one after the other, each in a separate process, and calls done for each. It
// returns the first error.
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
