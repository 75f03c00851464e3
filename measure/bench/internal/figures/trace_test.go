package figures

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cpu, events := 5*time.Second, 0.0
		tracer := StartTrace(10*time.Millisecond, func() Sample {
			cpu, events = cpu+time.Second, events+1
			return Sample{RSSBytes: 7, HeapBytes: -1, CPU: cpu, Events: events}
		})
		time.Sleep(25 * time.Millisecond)
		tracer.Mark(Starts)
		got := tracer.Stop()
		if again := tracer.Stop(); again != got {
			t.Error("a second stop gives another trace")
		}
		// At 0, 10 and 20 ms, and at the end; the CPU of the first look is not counted.
		if n := len(got.Events); n != 4 || len(got.CPUSeconds) != n || len(got.RSSBytes) != n || len(got.HeapBytes) != 0 {
			t.Fatalf("%+v", got)
		}
		if got.CPUSeconds[0] != 1 || got.CPUSeconds[3] != 4 || got.Events[3] != 5 || got.RSSBytes[0] != 7 {
			t.Errorf("%+v", got)
		}
		if len(got.Marks) != 1 || got.Marks[0] != (Mark{25, Starts}) {
			t.Errorf("%+v", got.Marks)
		}
	})
}

// TestLateSample: a late sample is repeated for those that were not taken.
func TestLateSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		tracer := StartTrace(10*time.Millisecond, func() Sample {
			if looks++; looks > 2 {
				time.Sleep(35 * time.Millisecond)
			}
			return Sample{HeapBytes: 1}
		})
		time.Sleep(100 * time.Millisecond)
		got := tracer.Stop()
		// The looks begin at 0, 10, 45, 80 and, the last one, 115 ms: 1, 2, 5, 9 and 12 samples.
		if n := len(got.Events); n != 12 || len(got.HeapBytes) != n {
			t.Errorf("%d samples, %d heaps", n, len(got.HeapBytes))
		}
	})
}

func TestNilTracer(t *testing.T) {
	var none *Tracer
	none.Mark(Starts)
	if got := none.Stop(); got != nil {
		t.Errorf("%v", got)
	}
}
