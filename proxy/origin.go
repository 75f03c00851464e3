package proxy

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// errAggregated is returned for a resource that another server serves behind kube-apiserver. It may show each caller something else
	// by one permission, as OpenShift does with projects, so it is never held.
	errAggregated = errors.New("it is served by an aggregated API server")
	// errOriginUnknown is returned for a resource of which it is not known who serves it. It is not held either.
	errOriginUnknown = errors.New("its APIService does not tell that kube-apiserver itself serves it, get of apiservices.apiregistration.k8s.io is needed")
)

const (
	aggregatorGroup = "/apis/apiregistration.k8s.io"
	apiServices     = aggregatorGroup + "/v1/apiservices"
)

// local returns nil if the upstream itself serves the version of the group, as it does built-in kinds and custom resources. An upstream that
// has no aggregator serves all it has. The error is errAggregated or errOriginUnknown.
func (d discoverer) local(ctx context.Context, gv schema.GroupVersion) error {
	var service struct {
		metav1.TypeMeta
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct{ Service *struct{} }
	}
	name := gv.Version + "." + gv.Group
	err := d.get(ctx, &service, apiServices, name)
	switch {
	case err == nil && service.Spec.Service != nil:
		return errAggregated
	case err == nil && service.Kind == "APIService" && service.Name == name:
		return nil
	case apierrors.IsNotFound(err) && apierrors.IsNotFound(d.get(ctx, &metav1.APIGroup{}, aggregatorGroup)):
		return nil
	}
	return errors.Join(errOriginUnknown, err)
}

// guard asks now and then, and soon after a watch upstream has ended, who serves the resource and how it is defined, until ctx ends. It ends the
// session when that is another server now, or another definition, or when the upstream has refused to tell finalAttempts times in a row;
// while the upstream does not answer, nothing changes.
func (h *held) guard(ctx context.Context, defined definition, end context.CancelCauseFunc) {
	ticker := time.NewTicker(h.holdings.opts.patience.origin)
	defer ticker.Stop()
	for refusals := 0; refusals < finalAttempts; {
		select {
		case <-ticker.C:
		case <-h.poked:
			pause(ctx, pokedPause)
		case <-ctx.Done():
			return
		}
		now := h.holdings.discoverer.definition(ctx, h.gvr)
		if now.differs(defined) {
			end(errRedefined)
			return
		}
		defined.learn(now)
		err := h.holdings.discoverer.local(ctx, h.gvr.GroupVersion())
		switch {
		case err == nil:
			refusals = 0
		case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
			refusals++
		}
		if errors.Is(err, errAggregated) || refusals == finalAttempts {
			end(err)
			return
		}
	}
}

// pause waits, no longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
