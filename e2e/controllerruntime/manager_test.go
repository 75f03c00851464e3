package controllerruntime

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// member is a running manager with the controllers rosters and checks.
type member struct {
	ctrl.Manager
	stop func() // stops the manager, and returns after it has ended
}

// manager starts a manager with both controllers. If election is true, the manager uses leader
// election: then only one of several managers reconciles.
func (s *stage) manager(election bool) *member {
	s.t.Helper()
	mgr, err := ctrl.NewManager(s.config(), ctrl.Options{
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		NewCache:                      s.newCache,
		Controller:                    config.Controller{SkipNameValidation: new(true)},
		LeaderElection:                election,
		LeaderElectionID:              "rosters",
		LeaderElectionNamespace:       s.namespace,
		LeaderElectionReleaseOnCancel: true,
		RetryPeriod:                   new(200 * time.Millisecond),
	})
	check.NoError(s.t, err)
	check.NoError(s.t, (&rosters{mgr.GetClient(), s.namespace}).setUp(s.ctx, mgr))
	check.NoError(s.t, (&checks{mgr.GetClient(), s.namespace}).setUp(mgr))
	ctx, cancel := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			s.t.Error(err)
		}
	})
	m := &member{mgr, func() {
		cancel()
		running.Wait()
	}}
	s.t.Cleanup(m.stop)
	return m
}

// rosters waits until exactly the wanted ConfigMaps exist, and every pod is annotated. want maps an
// app to the names of its pods.
func (s *stage) rosters(want map[string]string) {
	s.t.Helper()
	testenv.EventuallyNoError(s.t, s.ctx, "the ConfigMaps name the pods, and each pod was checked", func() error {
		var maps corev1.ConfigMapList
		if err := s.direct.List(s.ctx, &maps, client.InNamespace(s.namespace), client.MatchingLabels{madeLabel: "yes"}); err != nil {
			return err
		}
		got := map[string]string{}
		for _, m := range maps.Items {
			got[m.Name] = m.Data["pods"]
		}
		if !apiequality.Semantic.DeepEqual(got, want) {
			return fmt.Errorf("rosters %v, want %v", got, want)
		}
		var all corev1.PodList
		if err := s.direct.List(s.ctx, &all, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		for _, p := range all.Items {
			if p.Annotations[checked] != p.Labels[appLabel] {
				return fmt.Errorf("%s was not checked", p.Name)
			}
		}
		return nil
	})
}

// equal waits until the manager's cache has the same pods as a quorum LIST: as Go types, as
// unstructured objects, and as metadata.
func (s *stage) equal(m *member) {
	s.t.Helper()
	kind := corev1.SchemeGroupVersion.WithKind("PodList")
	for _, list := range []func() client.ObjectList{
		func() client.ObjectList { return &corev1.PodList{} },
		func() client.ObjectList { l := &unstructured.UnstructuredList{}; l.SetGroupVersionKind(kind); return l },
		func() client.ObjectList {
			l := &metav1.PartialObjectMetadataList{}
			l.SetGroupVersionKind(kind)
			return l
		},
	} {
		testenv.EventuallyNoError(s.t, s.ctx, "the cache is equal to what a LIST gives", func() error {
			cached, stored := list(), list()
			if err := m.GetClient().List(s.ctx, cached); err != nil {
				return err
			}
			if err := s.direct.List(s.ctx, stored); err != nil {
				return err
			}
			return compare(byKey(s.t, cached), byKey(s.t, stored))
		})
	}
}

func byKey(t *testing.T, list client.ObjectList) map[client.ObjectKey]client.Object {
	t.Helper()
	out := map[client.ObjectKey]client.Object{}
	err := meta.EachListItem(list, func(o runtime.Object) error {
		object := o.(client.Object)
		if _, ok := object.(*unstructured.Unstructured); !ok {
			// A LIST from the server does not set the kind of the items.
			object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		}
		out[client.ObjectKeyFromObject(object)] = object
		return nil
	})
	check.NoError(t, err)
	return out
}

// compare returns an error that describes the first difference it finds, or nil.
func compare(got, want map[client.ObjectKey]client.Object) error {
	if len(got) != len(want) {
		return fmt.Errorf("the cache has %d objects, the server %d", len(got), len(want))
	}
	for key, w := range want {
		if g := got[key]; !apiequality.Semantic.DeepEqual(g, w) {
			return fmt.Errorf("%s: the cache has %v, the server %v", key, g, w)
		}
	}
	return nil
}

// TestManager runs two managers, one of which is the leader. It checks the caches of both managers.
// It also checks that the second manager reconciles after the first one stops.
func TestManager(t *testing.T) {
	each(t, func(s *stage) {
		first := s.manager(true)
		s.elected(first)
		second := s.manager(true)
		for i := range 4 {
			s.create(s.pod(fmt.Sprintf("web-%d", i), "web"), s.pod(fmt.Sprintf("db-%d", i), "db"))
		}
		s.create(s.pod("solo-0", "solo"))
		s.rosters(map[string]string{"web": "web-0 web-1 web-2 web-3", "db": "db-0 db-1 db-2 db-3", "solo": "solo-0"})

		s.change(s.pod("web-0", "web"), func(p *corev1.Pod) { p.Labels[appLabel] = "db" })
		s.remove(s.pod("db-3", "db"), s.pod("solo-0", "solo"))
		// Another client deletes the ConfigMap.
		s.remove(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}})
		s.rosters(map[string]string{"web": "web-1 web-2 web-3", "db": "db-0 db-1 db-2 web-0"})
		s.equal(first)
		s.equal(second)

		select {
		case <-second.Elected():
			s.t.Error("both lead")
		default:
		}
		first.stop()
		s.elected(second)
		s.create(s.pod("web-9", "web"))
		s.rosters(map[string]string{"web": "web-1 web-2 web-3 web-9", "db": "db-0 db-1 db-2 web-0"})
		s.equal(second)
	})
}

// TestServerRestart restarts the API server while a manager runs. It checks that the controllers
// reconcile later changes.
func TestServerRestart(t *testing.T) {
	each(t, func(s *stage) {
		m := s.manager(false)
		s.create(s.pod("web-0", "web"), s.pod("web-1", "web"))
		s.rosters(map[string]string{"web": "web-0 web-1"})
		shared.KillAPIServer()
		check.NoError(s.t, shared.StartAPIServer(s.ctx))
		s.remove(s.pod("web-0", "web"))
		s.create(s.pod("web-2", "web"), s.pod("db-0", "db"))
		s.rosters(map[string]string{"web": "web-1 web-2", "db": "db-0"})
		s.equal(m)
	})
}

// TestRemoveInformer removes an informer while the manager runs. It checks that the next read
// starts a new informer, which has the same object.
func TestRemoveInformer(t *testing.T) {
	each(t, func(s *stage) {
		m := s.manager(false)
		s.equal(m)
		secrets := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "s"}}
		s.create(secrets)
		key := client.ObjectKeyFromObject(secrets)
		for range 2 {
			testenv.EventuallyNoError(s.t, s.ctx, "the cache has the Secret", func() error {
				return m.GetClient().Get(s.ctx, key, &corev1.Secret{})
			})
			inf, err := m.GetCache().GetInformer(s.ctx, &corev1.Secret{})
			check.NoError(s.t, err)
			check.NoError(s.t, m.GetCache().RemoveInformer(s.ctx, &corev1.Secret{}))
			testenv.Eventually(s.t, s.ctx, "the informer is stopped", inf.IsStopped)
		}
	})
}

func (s *stage) elected(m *member) {
	s.t.Helper()
	select {
	case <-m.Elected():
	case <-s.ctx.Done():
		s.t.Fatal("not elected")
	}
}

// change changes a pod with the function do, and updates the pod on the server. It retries after an
// error, such as a conflict.
func (s *stage) change(p *corev1.Pod, do func(*corev1.Pod)) {
	s.t.Helper()
	testenv.EventuallyNoError(s.t, s.ctx, "the pod is updated", func() error {
		if err := s.direct.Get(s.ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		do(p)
		return s.direct.Update(s.ctx, p)
	})
}

func (s *stage) remove(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		if err := s.direct.Delete(s.ctx, o); err != nil && !apierrors.IsNotFound(err) {
			s.t.Fatal(err)
		}
	}
}
