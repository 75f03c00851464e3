package weir

import (
	"reflect"
	"testing"
	"time"
)

// TestListWatchConfig: the reflector's Config gets each field of a ListWatch and of its Backoff.
func TestListWatchConfig(t *testing.T) {
	l := ListWatch{
		Mode: ModePages, Consistency: ConsistencyAny, PageSize: 1, WatchTimeout: 2 * time.Second, BookmarkDeadline: time.Minute, MaxLists: 3,
		Backoff: Backoff{Min: 4, Max: 5, Denied: 6, Healthy: 7, Random: func() float64 { return 0.5 }},
	}
	cfg := l.config()
	for _, structs := range [][2]reflect.Value{{reflect.ValueOf(l), reflect.ValueOf(cfg)}, {reflect.ValueOf(l.Backoff), reflect.ValueOf(cfg.Backoff)}} {
		for field, value := range structs[0].Fields() {
			got := structs[1].FieldByName(field.Name)
			if value.IsZero() {
				t.Errorf("the test leaves %s empty", field.Name)
			}
			if got.IsZero() || value.Comparable() && !got.Convert(value.Type()).Equal(value) {
				t.Errorf("%s of %v becomes %v", field.Name, value, got)
			}
		}
	}
}
