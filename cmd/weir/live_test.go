package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// metricsServer starts a server that answers /metrics like n API servers in turn. Each of them
// reports a number of LISTs: the number of requests that all of them together have received so far.
func metricsServer(t *testing.T, n int, status int) *metricsReader {
	t.Helper()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			t.Errorf("asked for %s", r.URL)
		}
		count := asked.Add(1)
		w.WriteHeader(status)
		fmt.Fprintf(w, "process_start_time_seconds %d\napiserver_request_total{code=\"200\",resource=\"pods\",verb=\"LIST\"} %d\n", 1+count%int64(n), count)
	}))
	t.Cleanup(server.Close)
	m, err := newMetricsReader(&rest.Config{Host: server.URL})
	check.NoError(t, err)
	t.Cleanup(m.close)
	return m
}

// TestLive checks that watch reports the difference between two samples of one server, even if
// other servers answer in between.
func TestLive(t *testing.T) {
	for _, n := range []int{1, 3} {
		r, err := metricsServer(t, n, http.StatusOK).watch(t.Context(), time.Millisecond, io.Discard)
		if err != nil {
			t.Fatalf("%d servers: %v", n, err)
		}
		check.Equal(t, r.Resources[0].Lists, float64(n), "%d servers: LISTs", n)
		var out strings.Builder
		if err := newPrescription(&out).print(newLivePage(doctor.NewLive(r), 10)); err != nil || !strings.Contains(out.String(), "Nothing stands out.") {
			t.Errorf("%v:\n%s", err, &out)
		}
	}
}

// TestLiveFails checks that errors of reading metrics are reported.
func TestLiveFails(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusForbidden: "403 Forbidden: a ClusterRole with nonResourceURLs [/metrics]",
		http.StatusNotFound:  "404 Not Found",
	} {
		if _, err := metricsServer(t, 1, status).read(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", status, err)
		}
	}
	if _, err := metricsServer(t, 1000, http.StatusOK).watch(t.Context(), time.Millisecond, io.Discard); !errors.Is(err, evidence.ErrAnotherServer) {
		t.Errorf("a thousand servers: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.ErrorIs(t, wait(ctx, time.Hour, newProgress(io.Discard, "", 1)), errInterrupted, "interrupted")
}

// TestServeWithoutItsProgram checks that a user who has installed only weir gets a hint about
// weir-serve.
func TestServeWithoutItsProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "")
	for _, args := range [][]string{{"serve"}, {"watch", "pods", "--embedded", "5"}} {
		root := newRoot()
		root.SetArgs(args)
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		err := root.ExecuteContext(t.Context())
		want := "install it in a checkout of weir with: go install ./cmd/weir/weir-serve"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
