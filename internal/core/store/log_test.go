package store

import (
	"strconv"
	"testing"
)

// TestLogForgets checks that the log no longer refers to a change that it has dropped. It drops a
// change because every cursor has read it, or because the log is full. The log's memory must
// shrink.
func TestLogForgets(t *testing.T) {
	for _, limit := range []int64{1, 0} {
		cfg := decodeConfig()
		cfg.LogBytes = limit
		s := newStore(t, cfg)
		w := fillPods(t, s, 300)
		c := s.Cursor()
		drain(c)
		for i := range 3000 {
			putPod(t, w, smallPod("", "p"+strconv.Itoa(i%300), i%300, 1000+i, nil, ""))
		}
		w.Flush()
		if limit == 0 && (s.log.len() != 3000 || c.Pending() != 0) || limit == 1 && (s.log.len() != 0 || c.Pending() != 300) {
			t.Errorf("limit %d: %d records, %d pending", limit, s.log.len(), c.Pending())
		}
		drain(c)
		for i, r := range s.log.records[:cap(s.log.records)] {
			if r.Old != nil || r.New != nil {
				t.Fatalf("slot %d of an empty log holds %s", i, r.Key())
			}
		}
		if s.log.bytes != 0 || s.log.len() != 0 || cap(s.log.records) > minLog {
			t.Errorf("read to its end: %d bytes, %d records, %d slots", s.log.bytes, s.log.len(), cap(s.log.records))
		}
		if c.backlog.bytes != 0 || c.backlog.entries != nil || c.backlog.first != nil || c.backlog.last != nil || c.backlog.n != 0 || c.backlog.awaiting != 0 {
			t.Errorf("read to its end: %+v", c.backlog)
		}
		c.Close()
		c.Close()
	}
}
