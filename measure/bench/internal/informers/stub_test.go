package informers

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

func makeStubPods(t *testing.T, enc *encoding, models, n int) *stubPods {
	t.Helper()
	return makePods(t, enc, models, n, false)
}

func makePods(t *testing.T, enc *encoding, models, n int, lifecycle bool) *stubPods {
	t.Helper()
	sim := podsim.New(models, 1)
	var pods []corev1.Pod
	for i := range models {
		pods = append(pods, *sim.Pod(i))
	}
	p, err := newStubPods(enc, n, lifecycle, func() iter.Seq2[*corev1.Pod, error] {
		return func(yield func(*corev1.Pod, error) bool) {
			for i := range pods {
				if !yield(&pods[i], nil) {
					return
				}
			}
		}
	})
	check.NoError(t, err)
	return p
}

// startStub runs a stub in this process. It returns the stub's URL and a client.
func startStub(t *testing.T, enc *encoding, models, n int) (string, kubernetes.Interface) {
	t.Helper()
	return serve(t, makeStubPods(t, enc, models, n))
}

// serve runs a stub with pods in this process. It returns the stub's URL and a client.
func serve(t *testing.T, pods *stubPods) (string, kubernetes.Interface) {
	t.Helper()
	server := httptest.NewServer(newStub(pods))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL}
	cfg.ContentType = pods.encoding.contentType
	httpClient := server.Client()
	client, err := kubernetes.NewForConfigAndClient(cfg, httpClient)
	check.NoError(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	return server.URL, client
}

func TestStubLists(t *testing.T) {
	for name, enc := range encodings {
		t.Run(name, func(t *testing.T) { testStubLists(t, enc) })
	}
}

func testStubLists(t *testing.T, enc *encoding) {
	const n = 230
	_, client := startStub(t, enc, 100, n)
	list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	check.NoError(t, err)
	if len(list.Items) != n {
		t.Fatalf("%d pods, want %d", len(list.Items), n)
	}
	check.Equal(t, list.ResourceVersion, fmt.Sprint(firstVersion+n), "resourceVersion")
	keys, uids, versions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, pod := range list.Items {
		keys[pod.Namespace+"/"+pod.Name], uids[string(pod.UID)], versions[pod.ResourceVersion] = true, true, true
		if pod.Spec.NodeName == "" || len(pod.ManagedFields) == 0 {
			t.Fatalf("%s lost part of its model", pod.Name)
		}
	}
	if len(keys) != n || len(uids) != n || len(versions) != n {
		t.Errorf("of %d pods, %d keys, %d uids and %d resourceVersions are different", n, len(keys), len(uids), len(versions))
	}
}

func TestStubListsPlainAsGzipped(t *testing.T) {
	p := makeStubPods(t, podsInProtobuf, 3, 10)
	var plain bytes.Buffer
	check.NoError(t, p.writeList(&plain))
	z, err := gzip.NewReader(bytes.NewReader(p.list))
	check.NoError(t, err)
	unzipped, err := io.ReadAll(z)
	check.NoError(t, err)
	if !bytes.Equal(plain.Bytes(), unzipped) {
		t.Error("the gzipped list is another one")
	}
}

func TestStubRefusesOtherEncodings(t *testing.T) {
	for name, enc := range encodings {
		url, _ := startStub(t, enc, 1, 1)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+podsPath, nil)
		check.NoError(t, err)
		r.Header.Set("Accept", "application/yaml")
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		check.NoError(t, err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusNotAcceptable {
			t.Errorf("%s: got %s", name, answer.Status)
		}
	}
}

// openWatch opens a watch, with or without initial events.
func openWatch(t *testing.T, client kubernetes.Interface, initial bool) watch.Interface {
	t.Helper()
	o := metav1.ListOptions{ResourceVersion: fmt.Sprint(firstVersion)}
	if initial {
		o = metav1.ListOptions{
			SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		}
	}
	w, err := client.CoreV1().Pods("").Watch(t.Context(), o)
	check.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// next waits for the next event of a watch.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch ended")
		}
		return e
	case <-time.After(2 * time.Minute):
		t.Fatal("no event came")
	}
	panic("unreachable")
}

func TestStubSendsInitialEvents(t *testing.T) {
	for name, enc := range encodings {
		t.Run(name, func(t *testing.T) { testStubSendsInitialEvents(t, enc) })
	}
}

func testStubSendsInitialEvents(t *testing.T, enc *encoding) {
	const n = 30
	_, client := startStub(t, enc, 7, n)
	w := openWatch(t, client, true)
	for range n {
		if e := next(t, w); e.Type != watch.Added {
			t.Fatalf("got %s, want ADDED", e.Type)
		}
	}
	e := next(t, w)
	pod, ok := e.Object.(*corev1.Pod)
	if !ok || e.Type != watch.Bookmark || pod.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Fatalf("got %s of %T, want the bookmark", e.Type, e.Object)
	}
	check.Equal(t, pod.ResourceVersion, fmt.Sprint(firstVersion+n), "the bookmark is at")
}

func TestStubModifies(t *testing.T) {
	for _, rate := range []float64{0, 2000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			const n = 30
			url, client := startStub(t, podsInProtobuf, 7, n)
			w := openWatch(t, client, false)
			check.NoError(t, tell(t.Context(), url, order{Do: doModify, Change: ChangeMix, Rate: rate}))
			seen := map[string]bool{}
			for k := range 2 * n {
				e := next(t, w)
				pod, ok := e.Object.(*corev1.Pod)
				if !ok || e.Type != watch.Modified {
					t.Fatalf("got %s of %T, want MODIFIED", e.Type, e.Object)
				}
				if want := fmt.Sprint(firstVersion + n + k + 1); pod.ResourceVersion != want {
					t.Fatalf("event %d is at %s, want %s", k, pod.ResourceVersion, want)
				}
				seen[pod.Name] = true
			}
			if len(seen) != n {
				t.Errorf("%d of %d pods were modified", len(seen), n)
			}
		})
	}
}

func TestStubExpires(t *testing.T) {
	url, client := startStub(t, podsInProtobuf, 7, 30)
	w := openWatch(t, client, false)
	check.NoError(t, tell(t.Context(), url, order{Do: doExpire, Times: 2}))
	var settled sync.WaitGroup
	settled.Go(func() {
		if _, err := waitSettled(t.Context(), url); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		e := next(t, w)
		if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
			t.Fatalf("got %s: %v", e.Type, err)
		}
		w = openWatch(t, client, false)
	}
	settled.Wait()
}

func TestStubRemoves(t *testing.T) {
	const n, keep = 230, 100
	url, client := startStub(t, podsInProtobuf, 100, n)
	w := openWatch(t, client, false)
	check.NoError(t, tell(t.Context(), url, order{Do: doRemove, Keep: keep}))
	gone := map[string]bool{}
	for range n - 3 { // pods 0, 100 and 200 are not deleted
		e := next(t, w)
		if e.Type != watch.Deleted {
			t.Fatalf("got %s, want DELETED", e.Type)
		}
		gone[e.Object.(*corev1.Pod).Name] = true
	}
	check.Equal(t, len(gone), n-3, "pods were deleted")
	if _, err := waitSettled(t.Context(), url); err != nil {
		t.Fatal(err)
	}
}

func TestStubRefusesOrders(t *testing.T) {
	url, _ := startStub(t, podsInProtobuf, 1, 1)
	for _, o := range []order{{}, {Do: "sing"}, {Do: doModify}, {Do: doModify, Change: "colour"}, {Do: doModify, Change: ChangeLifecycle}, {Do: doRollout}, {Do: doRemove}} {
		if err := tell(t.Context(), url, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestNewPopulationNeedsModels(t *testing.T) {
	if _, err := newStubPods(podsInProtobuf, 10, false, func() iter.Seq2[*corev1.Pod, error] { return func(func(*corev1.Pod, error) bool) {} }); !errors.Is(err, errNoModels) {
		t.Errorf("got %v", err)
	}
}

// TestStubContinuesWithNextOrder checks that a new order continues the resourceVersions of the
// previous order on the same WATCH.
func TestStubContinuesWithNextOrder(t *testing.T) {
	const n = 30
	url, client := startStub(t, podsInProtobuf, 7, n)
	w := openWatch(t, client, false)
	version := int64(firstVersion + n)
	for _, o := range []order{
		{Do: doModify, Change: ChangeStatus}, {Do: doModify, Change: ChangeLabel, Rate: 2000}, {Do: doModify, Change: ChangeSpec},
	} {
		check.NoError(t, tell(t.Context(), url, o))
		for range n {
			version++
			if got := next(t, w).Object.(*corev1.Pod).ResourceVersion; got != resourceversion.Format(uint64(version)) {
				t.Fatalf("%v: version %s, want %d", o, got, version)
			}
		}
		check.NoError(t, tell(t.Context(), url, order{Do: doHold}))
		settled := make(chan int64, 1)
		go func() {
			to, err := waitSettled(t.Context(), url)
			if err != nil {
				t.Error(err)
			}
			settled <- to
		}()
		for to := int64(0); to == 0 || version < to; { // read the events that were already sent
			select {
			case to = <-settled:
				if to < version {
					t.Fatalf("%v: settled at %d, after %d", o, to, version)
				}
			case e := <-w.ResultChan():
				version++
				if got := e.Object.(*corev1.Pod).ResourceVersion; got != resourceversion.Format(uint64(version)) {
					t.Fatalf("%v: version %s, want %d", o, got, version)
				}
			}
		}
	}
}
