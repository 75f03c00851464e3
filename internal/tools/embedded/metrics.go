package embedded

import (
	"fmt"
	"net/http"
	"runtime"

	"github.com/weirproject/weir/internal/tools/process"
)

// metrics answers /metrics with this process's resource usage, under the names of Prometheus'
// client library, which kube-apiserver uses too.
type metrics struct{ objects http.Handler }

func (h metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		h.objects.ServeHTTP(w, r)
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "process_cpu_seconds_total %v\ngo_memstats_alloc_bytes_total %d\n", process.CPUTime().Seconds(), m.TotalAlloc)
	if resident, ok := process.RSS(); ok {
		fmt.Fprintf(w, "process_resident_memory_bytes %d\n", resident)
	}
}
