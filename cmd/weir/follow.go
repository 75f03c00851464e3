package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
)

// watch is one run of `weir watch` for one resource, of any Go type.
type watch struct {
	*watchFlags
	format    *format // the parsed value of -o
	resource  serverResource
	names     []string // of the objects; none: all objects
	config    *rest.Config
	namespace string // "" is all
	expected  int    // objects, or 0 if the number is not known in advance
	sheet     *sheet
	columns   *columns.Set // nil if the output is not a table
	positions []int        // of columns among those of the sheet; -1: not shown
	err       io.Writer
	said      error // the sentinel of the last printed error; nil if none
}

// stopTimeout limits the wait for a row that stdout does not accept. The informer waits for the row
// when it stops. The limit lets an interrupt end the command soon.
const stopTimeout = 500 * time.Millisecond

// follow syncs an informer of T, prints a summary of its objects and the objects, and then prints
// changes until ctx ends.
func follow[T weir.Object](ctx context.Context, w *watch) error {
	statuses := make(chan weir.Status, 64)
	opts := weir.Options{
		Resource:    w.resource.GroupVersionResource,
		Selectors:   w.selectors(),
		StopTimeout: stopTimeout,
		OnStatus: func(s weir.Status) {
			select {
			case statuses <- s:
			default: // dropping a status only omits a printed line
			}
		},
	}
	if w.namespace != "" {
		opts.Namespaces = []string{w.namespace}
	}
	inf, err := weir.NewInformer[T](w.config, opts)
	if err != nil {
		return err
	}
	changes := newChanges(w, inf)
	if !w.once {
		if _, err := inf.Handle(changes.handle, weir.HandlerOptions[T]{}); err != nil {
			return err
		}
	}
	begin := time.Now()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(running) }() // ends with running
	defer func() { stop(); <-ended }()

	if err := waitSynced(ctx, inf, w, statuses); err != nil {
		return err
	}
	summary := syncSummary{w.resource, inf.Stats(), time.Since(begin), inf.Encoding(), w.verbose}
	if !w.once {
		fmt.Fprintln(w.err, summary)
	}
	if err := changes.sayMissing(ctx); err != nil {
		return err
	}
	if w.once {
		return changes.printOnce(ctx, summary)
	}
	if err := changes.printExisting(ctx); err != nil {
		return err
	}
	changes.begin()
	unwritten := w.report(ctx, statuses, w.sheet.out.failed)
	stop()
	err = <-ended
	ended <- nil
	if unwritten != nil {
		return unwritten
	}
	fmt.Fprintf(w.err, "%sstopped after %s: %s, %s\n", w.label(), time.Since(begin).Round(time.Second), changes.summary(),
		plural(inf.Stats().Requests, "request"))
	return err
}

// waitSynced waits for the first sync and shows its progress. It returns an error that more waiting
// cannot resolve.
func waitSynced[T weir.Object](ctx context.Context, inf *weir.Informer[T], w *watch, statuses <-chan weir.Status) error {
	bar := newProgress(w.err, w.resource.Resource, w.expected)
	if width, _ := w.sheet.size(); w.sheet.watches > 1 || width == 0 {
		bar.bar = nil // bars would overwrite each other, and a program may read the output
	}
	defer bar.end()
	synced := make(chan error, 1)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { synced <- inf.WaitForSync(waiting) }() // ends with waiting
	tick := time.Tick(progressEvery)
	for {
		select {
		case err := <-synced:
			if ctx.Err() != nil {
				return fmt.Errorf("%w before %s was in sync", errInterrupted, w.resource)
			}
			for len(statuses) > 0 {
				<-statuses // discard them, because inf.Status below returns newer ones
			}
			w.saySkipped(bar, inf.Status())
			return err
		case s := <-statuses:
			if s.Err == nil || skips(s) { // more statuses about skipped objects may follow
				continue
			}
			if hopeless(s) {
				return command.Explain(s.Err)
			}
			bar.say(w.label() + troubleText(s))
		case <-tick:
			stats := inf.Stats()
			bar.show(stats.Objects, stats.BodyBytes)
		}
	}
}

// saySkipped prints how many objects the informer leaves out because it cannot read them.
func (w *watch) saySkipped(bar *progress, statuses []weir.Status) {
	for _, s := range statuses {
		if skips(s) {
			bar.say(w.label() + troubleText(s))
			w.said = sentinelOf(s.Err)
		}
	}
}

// report prints to stderr when the informer's copy stops being current and when it is current
// again. It returns when ctx ends, or with the error of a failed write.
func (w *watch) report(ctx context.Context, statuses <-chan weir.Status, unwritten <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-unwritten:
			return err
		case s := <-statuses:
			sentinel := sentinelOf(s.Err)
			if sentinel == w.said || ctx.Err() != nil {
				continue
			}
			w.said = sentinel
			text := "current again"
			if sentinel != nil {
				text = troubleText(s)
			}
			fmt.Fprintf(w.err, "%s  %s%s\n", time.Now().Format(time.TimeOnly), w.label(), text)
		}
	}
}

// label returns the resource's name as the start of a printed line, or "" if only one resource is
// watched.
func (w *watch) label() string {
	if w.sheet == nil || w.sheet.watches < 2 {
		return ""
	}
	return w.resource.String() + ": "
}

// sentinelOf returns the sentinel of a *reflector.Error. It returns any other error, and nil,
// unchanged.
func sentinelOf(err error) error {
	if own, ok := errors.AsType[*reflector.Error](err); ok {
		return own.Sentinel
	}
	return err
}

// errInterrupted is returned by a command that was interrupted before it printed anything.
var errInterrupted = errors.New("interrupted")

// patience is the number of consecutive failures that waitSynced tolerates before the first sync,
// if a retry may succeed.
const patience = 3

// hopeless reports whether retries cannot resolve the error of s, so that waitSynced should give
// up.
func hopeless(s weir.Status) bool {
	if skips(s) {
		return false
	}
	lasting := []error{
		weir.ErrForbidden, weir.ErrUnauthorized, weir.ErrUnknownResource, weir.ErrMethodNotAllowed, weir.ErrMalformed, weir.ErrRejected, weir.ErrEncoding,
	}
	return slices.ContainsFunc(lasting, func(err error) bool { return errors.Is(s.Err, err) }) || errors.Is(s.Err, weir.ErrUnreachable) && s.Attempts >= patience
}

// skips reports whether the status's only error is that some objects cannot be read and are left
// out.
func skips(s weir.Status) bool { return s.Err != nil && s.Err == s.SkippedErr }

// troubleText returns one line about the status's error and the informer's reaction.
func troubleText(s weir.Status) string {
	why := command.OneLine(command.Explain(s.Err))
	if skips(s) {
		return fmt.Sprintf("%s cannot be read: %s", plural(int64(s.Skipped), "object"), why)
	}
	return why + "; trying again"
}

// syncSummary describes the informer's contents after a sync and the cost of the sync.
type syncSummary struct {
	resource serverResource
	weir.Stats
	elapsed  time.Duration
	encoding weir.Encoding
	verbose  bool // String reports the parts of the memory too
}

// syncReport is the output of --once --stats -o json. Its field names are stable.
type syncReport struct {
	Resource        string  `json:"resource"`
	Objects         int     `json:"objects"`
	WireBytes       int64   `json:"wireBytes"` // received, before decompression
	HeldBytes       int64   `json:"heldBytes"` // in memory, for all purposes
	SyncSeconds     float64 `json:"syncSeconds"`
	Requests        int64   `json:"requests"` // of the informer
	ResourceVersion string  `json:"resourceVersion"`
	PeakRSSBytes    int64   `json:"peakRSSBytes"` // of this process
}

func (s syncSummary) report() syncReport {
	return syncReport{
		Resource:        s.resource.String(),
		Objects:         s.Objects,
		WireBytes:       s.WireBytes,
		HeldBytes:       s.Memory.Total(),
		SyncSeconds:     s.elapsed.Seconds(),
		Requests:        s.Requests,
		ResourceVersion: s.ResourceVersion,
		PeakRSSBytes:    process.PeakRSS(),
	}
}

// String returns one line about the contents and the cost of the sync.
func (s syncSummary) String() string {
	line := fmt.Sprintf("%s %s in sync after %s; %s in memory", humanize.Count(int64(s.Objects)), s.resource.named(s.Objects),
		humanize.Seconds(s.elapsed.Seconds()), humanize.Bytes(s.Memory.Total()))
	if estimate := s.clientGo(); estimate > 0 {
		line += fmt.Sprintf(" (client-go: about %s)", humanize.Bytes(estimate))
	}
	if s.verbose {
		line += fmt.Sprintf("; %s on the wire, %s, %s", humanize.Bytes(s.WireBytes), purposes(s.Memory), plural(s.Requests, "request"))
	}
	return line
}

// The heap of client-go's informers per received byte of an object, as measured by weir bench sync
// (docs/reference/performance.md).
const (
	clientGoTyped        = 3 // received as protobuf
	clientGoUnstructured = 6 // received as JSON
)

// clientGo estimates how much memory client-go's informer needs for the same objects, as Go structs
// or unstructured.
func (s syncSummary) clientGo() int64 {
	if s.encoding == weir.Protobuf {
		return clientGoTyped * s.Memory.Raw
	}
	return clientGoUnstructured * s.Memory.Raw
}

// purposes returns the used memory by purpose, as text. It omits purposes that use no memory.
func purposes(m weir.Memory) string {
	var parts []string
	for _, p := range store.Memory(m).Purposes() {
		if p.Bytes > 0 {
			parts = append(parts, p.Name+" "+humanize.Bytes(p.Bytes))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// plural returns a number and the name of a thing, which gets an "s" unless n is 1.
func plural(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return humanize.Count(n) + " " + thing
}
