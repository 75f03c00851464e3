package informers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

var encodings = map[string]*encoding{"protobuf": podsInProtobuf, "json": podsInJSON}

// changed returns how two versions of a pod differ, as kinds of changes. It returns "more" for any
// other difference.
func changed(was, is *corev1.Pod) (kinds []string) {
	was = was.DeepCopy()
	differs := func(kind string, a, b any, mend func()) {
		if !apiequality.Semantic.DeepEqual(a, b) {
			kinds = append(kinds, kind)
			mend()
		}
	}
	was.ResourceVersion = is.ResourceVersion
	differs(ChangeStatus, was.Status, is.Status, func() { was.Status, was.ManagedFields = is.Status, is.ManagedFields })
	differs(ChangeLabel, was.Labels, is.Labels, func() { was.Labels = is.Labels })
	differs(ChangeAnnotation, was.Annotations, is.Annotations, func() { was.Annotations = is.Annotations })
	differs(ChangeSpec, was.Spec, is.Spec, func() { was.Spec = is.Spec })
	differs("more", was, is, func() {})
	return kinds
}

// follow reads the stub's LIST and n events of a kind of change. It returns the kinds of changes
// that each event contains.
func follow(t *testing.T, enc *encoding, kind string, objects, n int) (kinds [][]string) {
	t.Helper()
	url, client := startStub(t, enc, 7, objects)
	list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	check.NoError(t, err)
	held := map[string]*corev1.Pod{}
	for i := range list.Items {
		held[list.Items[i].Name] = &list.Items[i]
	}
	w := openWatch(t, client, false)
	check.NoError(t, tell(t.Context(), url, order{Do: doModify, Change: kind}))
	for range n {
		e := next(t, w)
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || e.Type != watch.Modified || held[pod.Name] == nil {
			t.Fatalf("got %s of %T", e.Type, e.Object)
		}
		if pod.ResourceVersion <= held[pod.Name].ResourceVersion {
			t.Fatalf("%s goes from version %s to %s", pod.Name, held[pod.Name].ResourceVersion, pod.ResourceVersion)
		}
		kinds = append(kinds, changed(held[pod.Name], pod))
		held[pod.Name] = pod
	}
	return kinds
}

func TestChangesMatchTheirNames(t *testing.T) {
	for name, enc := range encodings {
		for _, kind := range []string{ChangeStatus, ChangeLabel, ChangeAnnotation, ChangeSpec, ChangeVersion} {
			t.Run(name+" "+kind, func(t *testing.T) {
				want := []string{kind}
				if kind == ChangeVersion {
					want = nil
				}
				for i, got := range follow(t, enc, kind, 30, 90) {
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("event %d: %s", i, diff)
					}
				}
			})
		}
	}
}

func TestMixIsMostlyStatus(t *testing.T) {
	const n = 2000
	counts := map[string]int{}
	for i, kinds := range follow(t, podsInProtobuf, ChangeMix, 40, n) {
		if len(kinds) != 1 {
			t.Fatalf("event %d changes %v", i, kinds)
		}
		counts[kinds[0]]++
	}
	for kind, of20 := range map[string]int{ChangeStatus: 14, ChangeAnnotation: 3, ChangeLabel: 2, ChangeSpec: 1} {
		if want := n * of20 / 20; counts[kind] < want*7/10 || counts[kind] > want*13/10 {
			t.Errorf("%d of %d changes are of %s, want some %d", counts[kind], n, kind, want)
		}
	}
}

// TestStubServesItsModels checks the pods of a stub that has as many models as pods. Models are the
// pods from which a stub makes its own. Each pod must equal its model, except for the fields that
// the stub changes.
func TestStubServesItsModels(t *testing.T) {
	const n = 50
	for name, enc := range encodings {
		t.Run(name, func(t *testing.T) {
			_, client := startStub(t, enc, n, n)
			list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			check.NoError(t, err)
			sim := podsim.New(n, 1)
			for i := range list.Items {
				got, want := &list.Items[i], sim.Pod(i)
				delete(got.Labels, changedLabel)
				delete(got.Annotations, changedAnnotation)
				got.ResourceVersion = ""
				got.Spec.Containers[0].Image = want.Spec.Containers[0].Image
				for c := range got.Status.Conditions {
					got.Status.Conditions[c].LastTransitionTime = want.Status.Conditions[c].LastTransitionTime
				}
				for m := range got.ManagedFields {
					got.ManagedFields[m].Time = want.ManagedFields[m].Time
				}
				if !apiequality.Semantic.DeepEqual(want, got) {
					t.Fatalf("pod %d: %s", i, cmp.Diff(want, got))
				}
			}
		})
	}
}

// TestNewModelOfABarePod checks that a pod with few fields can be changed too.
func TestNewModelOfABarePod(t *testing.T) {
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	for name, enc := range encodings {
		m, err := newModel(enc, bare, true, false)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(m) != 2 || len(m[unready].shared) == 0 {
			t.Fatalf("%s: %d texts, which do not share their start", name, len(m))
		}
		for p, text := range m {
			count := map[blankKind]int{}
			for _, b := range text.blanks {
				count[b.of]++
			}
			for _, of := range []blankKind{copyBlank, uidBlank, versionBlank, labelBlank, annotationBlank, timeBlank} {
				if count[of] != 1 {
					t.Errorf("%s, phase %d: %d blanks of kind %d", name, p, count[of], of)
				}
			}
		}
	}
}
