package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/tools/command"
)

// target is a resource on the command line.
type target struct {
	resource string
	names    []string // of its objects; none: all objects
	found    serverResource
}

// maxNames is the number of objects of a resource that can be named: an informer sends a request
// for each.
const maxNames = 32

// parseTargets parses the arguments of weir watch: RESOURCE[,RESOURCE...], which names may follow,
// or several RESOURCE/NAME. The result is not empty.
func parseTargets(args []string) ([]target, error) {
	var targets []target
	if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "/") }) {
		for _, arg := range args {
			resource, name, _ := strings.Cut(arg, "/")
			if resource == "" || name == "" || strings.Contains(resource, ",") || strings.Contains(name, "/") {
				return nil, command.Usagef("%q: want RESOURCE/NAME, such as pod/web-0, if another argument has this form", arg)
			}
			targets = append(targets, target{resource: resource, names: []string{name}})
		}
		return targets, nil
	}
	for resource := range strings.SplitSeq(args[0], ",") {
		if resource == "" {
			return nil, command.Usagef("%q: a name is missing before or after a comma", args[0])
		}
		targets = append(targets, target{resource: resource, names: args[1:]})
	}
	return targets, nil
}

// discover asks the server for the resources of the targets. It returns or fails within seconds.
// Targets with the same resource, as in pods,po, become one.
func discover(ctx context.Context, cfg *rest.Config, targets []target) ([]target, error) {
	client, err := source.NewDiscovery(command.Impatient(cfg))
	if err != nil {
		return nil, err
	}
	lists, failed := client.All(ctx)
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	if len(lists) == 0 && failed != nil {
		return nil, command.Explain(failed)
	}
	var meant []target
	for _, t := range targets {
		t.found, err = findResource(lists, t.resource)
		if errors.Is(err, errUnknownResource) && failed != nil {
			err = fmt.Errorf("%w; the server did not report all resources: %w", err, failed)
		}
		if err != nil {
			return nil, err // do not join failed with err: Explain would then report only failed
		}
		at := slices.IndexFunc(meant, func(m target) bool { return m.found == t.found })
		if at < 0 {
			meant, at = append(meant, target{resource: t.resource, found: t.found}), len(meant)
		}
		for _, name := range t.names {
			if !slices.Contains(meant[at].names, name) {
				meant[at].names = append(meant[at].names, name)
			}
		}
		if len(meant[at].names) > maxNames {
			return nil, command.Usagef("%s: at most %d objects can be named; select them with -l", t.found, maxNames)
		}
	}
	return meant, nil
}

// selectors returns the informer's selectors, or nil if it selects all objects.
func (w *watch) selectors() []weir.Selector {
	var selectors []weir.Selector
	for _, name := range w.names {
		selectors = append(selectors, weir.Selector{Field: fields.OneTermEqualSelector("metadata.name", name).String()})
	}
	if w.selector != "" || w.fieldSelector != "" {
		selectors = append(selectors, weir.Selector{Label: w.selector, Field: w.fieldSelector})
	}
	return selectors
}

// sayMissing reports a namespace that does not exist or has no objects, and named objects that do
// not exist. With --once, it returns an error for the named objects.
func (c *changes[T]) sayMissing(ctx context.Context) error {
	w := c.w
	switch empty := c.inf.Len() == 0; {
	case empty && w.namespace != "" && w.lacksNamespace(ctx):
		fmt.Fprintf(w.err, "%sthe namespace %q does not exist\n", w.label(), w.namespace)
	case empty && w.namespace != "" && w.names == nil:
		fmt.Fprintf(w.err, "%sno %s in the namespace %q; -A shows those of all namespaces\n", w.label(), w.resource, w.namespace)
	case empty && w.once && w.names == nil:
		fmt.Fprintf(w.err, "no %s found\n", w.resource)
	}
	missing := slices.Clone(w.names)
	for item := range c.inf.Snapshot().Items() {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == item.Name() })
		if len(missing) == 0 {
			break
		}
	}
	for _, name := range missing {
		if w.once {
			return fmt.Errorf("%s %q does not exist", w.resource.named(1), name)
		}
		fmt.Fprintf(w.err, "%s %q does not exist yet\n", w.resource.named(1), name)
	}
	return nil
}

// lacksNamespace reports whether the server says that the namespace does not exist.
func (w *watch) lacksNamespace(ctx context.Context) bool {
	client, err := source.NewDiscovery(command.Impatient(w.config))
	if err != nil {
		return false
	}
	err = client.REST().Get().AbsPath("/api/v1/namespaces", w.namespace).MaxRetries(0).Do(ctx).Error()
	status, ok := errors.AsType[*apierrors.StatusError](err)
	// A server without namespaces answers 404 too, without their name.
	return ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name == w.namespace
}
