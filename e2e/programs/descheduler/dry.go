package main

import (
	"cmp"
	"context"

	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
)

// dryClient is a client that asks the server only for dry runs of evictions, because another
// program runs on the same pods. The descheduler's own dry run cannot be used: it copies all
// objects into a fake clientset, whose memory would be measured.
type dryClient struct{ kubernetes.Interface }

func (c dryClient) PolicyV1() policyclient.PolicyV1Interface {
	return dryPolicy{c.Interface.PolicyV1()}
}

type dryPolicy struct{ policyclient.PolicyV1Interface }

func (p dryPolicy) Evictions(namespace string) policyclient.EvictionInterface {
	return dryEvictions{p.PolicyV1Interface.Evictions(namespace)}
}

type dryEvictions struct{ policyclient.EvictionInterface }

func (e dryEvictions) Evict(ctx context.Context, eviction *policy.Eviction) error {
	eviction = eviction.DeepCopy()
	eviction.DeleteOptions = cmp.Or(eviction.DeleteOptions, &metav1.DeleteOptions{})
	eviction.DeleteOptions.DryRun = []string{metav1.DryRunAll}
	return e.EvictionInterface.Evict(ctx, eviction)
}
