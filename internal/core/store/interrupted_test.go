package store

import (
	"runtime"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestInterruptedFuncIndex checks the queries that follow an interrupted query. That query was
// interrupted because a decoder panicked or a function ended its goroutine. The later queries must
// return all objects. The interruption occurs while the index is built, catches up, or is built
// again.
func TestInterruptedFuncIndex(t *testing.T) {
	const n = 100
	for _, how := range []string{"panic", "goexit"} {
		// The index is built, catches up, and is built again.
		for _, changed := range []int{0, 10, 3*n + 2*dirtySlack} {
			t.Run(how+strconv.Itoa(changed), func(t *testing.T) {
				interrupt := false
				cfg := decodeConfig()
				cfg.Decode = func(raw []byte, earlier *codec.Version) (any, error) {
					if interrupt && how == "panic" {
						panic("cannot be decoded")
					}
					return decodePod(raw, earlier)
				}
				s := newStore(t, cfg)
				calls := 0
				check.NoError(t, s.AddIndex("node", FuncIndex(func(v any) ([]string, error) {
					if calls++; interrupt && calls == 5 {
						runtime.Goexit()
					}
					return []string{"1", v.(*corev1.Pod).Spec.NodeName}, nil
				})))
				w := fillPods(t, s, n)
				query := func(value string) (string, error) { return byKeys(t, s.Snapshot(), "node", value) }
				if changed > 0 {
					if _, err := query("1"); err != nil {
						t.Fatal(err)
					}
				}
				for i := range changed { // pods that are created and deleted, and some that stay
					pod := smallPod("", "q"+strconv.Itoa(i), n+i, 1000+2*i, nil, "new")
					putPod(t, w, pod)
					if i >= 10 {
						pod.ResourceVersion = strconv.Itoa(1001 + 2*i)
						deletePod(t, w, pod)
					}
				}
				deletePod(t, w, smallPod("", "p0", 0, 900_000, nil, ""))
				w.Flush()
				interrupt, calls = true, 0
				var querying sync.WaitGroup
				querying.Go(func() {
					defer func() { _ = recover() }()
					_, err := query("1")
					t.Errorf("the query was not interrupted (%v)", err)
				})
				querying.Wait()
				interrupt = false
				want := ""
				for o := range s.Snapshot().All() {
					want += " " + o.Key()
				}
				if got, err := query("1"); " "+got != want || err != nil {
					t.Errorf("%q (%v), want%s", got, err, want)
				}
			})
		}
	}
}
