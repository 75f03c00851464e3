package programs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/programs/report"
	"github.com/weirproject/weir/internal/testing/check"
)

// trial tests a program on one or more clusters. It checks that the unchanged program (plain) and
// the changed program have the same result, and returns the resource usage of both.
type trial interface {
	try(t *testing.T, ctx context.Context, plain, changed string) (before, after usage)
}

// TestPrograms runs each program unchanged and changed, compares the results, and prints the
// resource usage of both. It checks that the drop-in reads watches in the changed program. It takes
// hours, so it runs only with the flag -programs.pods (make programs).
func TestPrograms(t *testing.T) {
	if *podsFlag == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Hour)
	defer cancel()
	var table strings.Builder
	fmt.Fprintf(&table, "%-24s %10s %14s   %-23s   %-23s   %s\n", "", "statements", "imports+go.mod", "peak RSS, MB", "CPU, s", "done after, s")
	for _, of := range []struct {
		program string
		trial   trial
	}{
		{"prometheus", observer{}},
		{"k8sattributes", observer{args: []string{"-pods", strconv.Itoa(*podsFlag)}}},
		{"external-dns", publishes},
		{"descheduler", deschedules},
		{"metrics-server", measures},
		{"kube-scheduler", writer(schedule)},
		{"kube-controller-manager", writer(control)},
		{"cert-manager", writer(certify)},
		{"coredns", resolves},
		{"cluster-api", writer(provision)},
		{"traefik", routes},
		{"cilium", subscribes},
		{"istio", discovers},
	} {
		t.Run(of.program, func(t *testing.T) {
			p := &program{name: of.program}
			plain, changed, err := p.build(ctx, t.TempDir())
			check.NoError(t, err)
			before, after := of.trial.try(t, ctx, plain, changed)
			t.Logf("the drop-in's informers and watches: %+v", after.dropIn)
			if before.dropIn != (report.DropIn{}) || after.dropIn.Captured == 0 {
				t.Errorf("the drop-in is in use unchanged: %+v; changed: %+v: what is changed has no effect", before.dropIn, after.dropIn)
			}
			fmt.Fprintf(&table, "%-24s %10d %14s   %6.0f %6.0f %8.2f   %6.1f %6.1f %8.2f   %6.1f %6.1f\n", of.program,
				p.statements, fmt.Sprintf("%d+%d", p.imports, p.goModules),
				mb(before.peakRSS), mb(after.peakRSS), float64(after.peakRSS)/float64(before.peakRSS),
				before.cpu.Seconds(), after.cpu.Seconds(), after.cpu.Seconds()/before.cpu.Seconds(),
				before.done.Seconds(), after.done.Seconds())
		})
	}
	t.Logf("as it is, changed, and the one by the other\n%s", table.String())
}

func mb(n int64) float64 { return float64(n) / (1 << 20) }
