package programs

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/e2e/programs/report"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestDropIn(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{Pods: 3})
	if err == nil {
		err = server.Start()
	}
	check.NoError(t, err)
	defer server.Close()
	for name, test := range map[string]struct {
		prepare func(*rest.Config) *rest.Config
		make    func(cache.ListerWatcher) cache.SharedIndexInformer
		want    report.DropIn
	}{
		"client-go": {nil, func(lw cache.ListerWatcher) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
		}, report.DropIn{}},
		"without Wrap": {nil, func(lw cache.ListerWatcher) cache.SharedIndexInformer {
			return clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
		}, report.DropIn{Informers: 1}},
		"only Wrap": {clientgo.Wrap, func(lw cache.ListerWatcher) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
		}, report.DropIn{}},
		"all": {clientgo.Wrap, func(lw cache.ListerWatcher) cache.SharedIndexInformer {
			return clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
		}, report.DropIn{Informers: 1, Captured: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := rest.CopyConfig(server.Config())
			if test.prepare != nil {
				test.prepare(cfg)
			}
			pods := kubernetes.NewForConfigOrDie(cfg).CoreV1().RESTClient()
			informer := test.make(cache.NewListWatchFromClient(pods, "pods", metav1.NamespaceAll, fields.Everything()))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); informer.RunWithContext(ctx) }()
			defer func() { cancel(); <-ended }()
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				t.Fatal("not synced")
			}
			soon, cancelSoon := context.WithTimeout(ctx, time.Minute)
			defer cancelSoon()
			// The informer starts its watch only after its list.
			testenv.EventuallyNoError(t, soon, "it is reported", func() error {
				if got := report.FindDropIn(); got != test.want {
					return fmt.Errorf("got %+v, want %+v", got, test.want)
				}
				return nil
			})
		})
	}
}
