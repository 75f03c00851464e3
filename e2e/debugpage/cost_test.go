package debugpage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/weirproject/weir/internal/testing/check"
)

// measured is how long BenchmarkPage measures a page.
const measured = 30 * time.Second

// BenchmarkPage measures the CPU time of all processes of Chromium, in per cent of a core, while a
// page is open, and while an empty page is open. Run it with -benchtime 1x.
func BenchmarkPage(b *testing.B) {
	for _, informers := range []int{102, 1000} {
		b.Run(fmt.Sprintf("informers=%d", informers), func(b *testing.B) {
			page := crowd(b, informers)
			in := browser(b)
			chrome := chromedp.FromContext(in).Browser.Process().Pid
			for range b.N {
				empty := open(b, in, "about:blank", 1440, 900, false)
				idle := usage(b, empty, chrome)
				empty.close()
				p := open(b, in, page, 1440, 900, false)
				p.says("document.getElementById('summary')", fmt.Sprintf("7 of %s need attention", strings.Replace(strconv.Itoa(informers), "1000", "1,000", 1)))
				all := usage(b, p, chrome)
				b.ReportMetric(all, "%core-chromium")
				b.ReportMetric(idle, "%core-empty")
				b.ReportMetric(value[float64](p, "(() => { const began = performance.now(); update(latest); document.body.offsetHeight; return performance.now() - began; })()"), "ms/update")
				p.close()
			}
			b.ReportMetric(0, "ns/op") // it has no meaning
		})
	}
}

// usage measures how much of a core all processes of Chromium use while a page is open, in per
// cent.
func usage(b *testing.B, p *tab, chrome int) float64 {
	b.Helper()
	began, before := time.Now(), processorTime(b, chrome)
	wait, cancel := context.WithTimeout(p.ctx, measured)
	defer cancel()
	<-wait.Done()
	return 100 * (processorTime(b, chrome) - before).Seconds() / time.Since(began).Seconds()
}

// processorTime returns the CPU time of a process and its descendants.
func processorTime(b *testing.B, pid int) (sum time.Duration) {
	b.Helper()
	parents, times := map[int]int{}, map[int]time.Duration{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	check.NoError(b, err)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest) // from the third field of proc(5) on
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parents[id], _ = strconv.Atoi(fields[1])
		for _, field := range fields[11:13] { // user and system time, in hundredths of a second
			n, _ := strconv.Atoi(field)
			times[id] += time.Duration(n) * 10 * time.Millisecond
		}
	}
	for id, t := range times {
		for of := id; of != 0; of = parents[of] {
			if of == pid {
				sum += t
				break
			}
		}
	}
	return sum
}
