package delivery

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
)

// Profiler labels of a goroutine that serves a registration. A CPU profile shows the costs of each
// handler by handlerLabel. Stacks finds the goroutine by registrationLabel. All goroutines that a
// handler starts inherit both, also shared ones, such as the reader of an HTTP/2 connection: a
// profile attributes their costs to the handler, even after the handler has returned.
const (
	handlerLabel      = "weir_handler"
	registrationLabel = "weir_registration"
)

// labelled returns a context with the registration's profiler labels. The handler receives a child
// of it, so that a handler that sets its own labels with pprof.Do restores these labels.
func (r *Registration) labelled(ctx context.Context) context.Context {
	return pprof.WithLabels(ctx, pprof.Labels(handlerLabel, r.opts.Name, registrationLabel, r.label()))
}

// label returns a text that differs from the labels of all other registrations in memory.
func (r *Registration) label() string { return fmt.Sprintf("%p", r) }

// Stacks records the stacks of all goroutines of the process. It returns a function that returns
// the stack of the goroutine in which a registration's handler was running, the innermost function
// first, one function per line; or "" if the handler was not running. To record the stacks costs
// about 10 µs per goroutine, so the caller should limit how often it calls Stacks.
func Stacks() func(*Registration) string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		// cannot happen: the buffer accepts every write
		return func(*Registration) string { return "" }
	}
	byLabel := map[string]string{}
	for goroutine := range strings.SplitSeq(all.String(), "\n\n") {
		_, after, labelled := strings.Cut(goroutine, `"`+registrationLabel+`":"`)
		if !labelled {
			continue
		}
		if frames, calls := handlerFrames(goroutine); calls {
			label, _, _ := strings.Cut(after, `"`)
			byLabel[strings.Clone(label)] = frames // a substring would keep all stacks in memory
		}
	}
	return func(r *Registration) string { return byLabel[r.label()] }
}

// handlerFrames returns the frames of a goroutine in the text format of package pprof, without
// addresses, up to the handler's call. calls is false if the goroutine does not call a handler.
func handlerFrames(goroutine string) (frames string, calls bool) {
	var b strings.Builder
	for line := range strings.Lines(goroutine) {
		// A frame is "#", address, function and offset, and position, separated by tabs.
		fields := strings.FieldsFunc(line, func(c rune) bool { return c == '\t' || c == '\n' })
		if len(fields) < 4 || fields[0] != "#" {
			continue
		}
		if strings.Contains(fields[2], "/delivery.(*Registration).call+") {
			return b.String(), true
		}
		name, _, _ := strings.Cut(fields[2], "+0x")
		fmt.Fprintf(&b, "%s\t%s\n", name, fields[3])
	}
	return "", false
}
