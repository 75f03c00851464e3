package seats

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestMetrics checks that each bound has metrics, by level.
func TestMetrics(t *testing.T) {
	s := New(&Config{
		Reads: 10, Writes: 10, Wait: time.Minute, Watches: 2, WatchesPerUser: 1, WatchMemory: 10 * WatchBytes, ResponseMemory: 800,
		Connections: func() int64 { return 5 }, Kept: func() int64 { return 7 },
	})
	jane := Flow{Level: Everyone, Caller: "user jane"}
	if !s.Reads.Acquire(t.Context(), jane) {
		t.Fatal("no seat")
	}
	if _, err := s.Watches.Acquire(jane, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watches.Acquire(jane, 0); err == nil {
		t.Error("a second watch of one user")
	}
	p := s.Unread.Payer(jane)
	if p.Budget.NewCharge(p.Level, p.Share).Add(300); p.Most != 400 {
		t.Errorf("%+v", p)
	}
	got := map[string]float64{}
	note := func(name, _ string, value float64, labels ...string) {
		if value != 0 {
			got[strings.Join(append([]string{name}, labels...), " ")] = value
		}
	}
	s.Metrics(note, note)
	want := map[string]float64{
		"apiserver_current_inflight_requests request_kind readOnly": 1,
		"weir_proxy_seats request_kind readOnly level everybody":    1,
		"weir_proxy_watches_refused_total for user":                 1,
		"weir_proxy_watch_memory_budget_bytes":                      10 * WatchBytes,
		"weir_proxy_watch_memory_used_bytes":                        WatchBytes + 12,
		"weir_proxy_watch_memory_late_bytes":                        7,
		"weir_proxy_response_memory_budget_bytes":                   800,
		"weir_proxy_response_memory_used_bytes level known":         300,
	}
	for name, v := range want {
		check.Equal(t, got[name], v, "%s", name)
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}

// TestUnread checks which part of the memory is available for unread responses: half for one user,
// all for a user that runs the cluster, and an eighth for a source with new tokens or without a
// credential.
func TestUnread(t *testing.T) {
	u := newUnread(800)
	for name, c := range map[string]struct {
		flow Flow
		want int64
	}{
		"a user":                 {Flow{Level: Everyone, Caller: "user jane"}, 400},
		"a user's leases":        {Flow{Level: Leases, Caller: "user jane"}, 400},
		"the system":             {Flow{Level: System, Caller: "user admin"}, 800},
		"new tokens":             {Flow{Level: NewTokens, Caller: "192.0.2.1", Token: "token a"}, 100},
		"without any credential": {Flow{Level: Anonymous, Caller: "192.0.2.1"}, 100},
	} {
		p := u.Payer(c.flow)
		check.Equal(t, p.Budget.NewCharge(p.Level, p.Share).Room(), c.want, "%s: bytes", name)
	}
	jane, admin := &user.DefaultInfo{Name: "jane"}, &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	if p := u.Payer(ReviewFlow(jane)); p.Share != UserKey(jane) || p.Most != 400 {
		t.Errorf("%+v", p)
	}
	if p := u.Payer(ReviewFlow(admin)); p.Share != "" || p.Most != 400 {
		t.Errorf("%+v", p)
	}
	if p := newUnread(-1).Payer(ReviewFlow(jane)); p.Most > 0 || p.Budget.NewCharge(p.Level, p.Share).Grow(1<<40) != nil {
		t.Errorf("a bound of no memory: %+v", p)
	}
}
