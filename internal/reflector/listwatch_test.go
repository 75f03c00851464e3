package reflector

import (
	"reflect"
	"testing"
	"time"
)

// TestListWatchConfig: no field of a ListWatch is lost on the way to its Config.
func TestListWatchConfig(t *testing.T) {
	l := ListWatch[Mode, Consistency, Backoff]{
		Mode: Pages, Consistency: Any, PageSize: 1, WatchTimeout: time.Second, BookmarkDeadline: time.Minute, MaxLists: 2,
		Backoff: Backoff{Min: 1},
	}
	from, to := reflect.ValueOf(l), reflect.ValueOf(l.Config())
	for i := range from.NumField() {
		name, value := from.Type().Field(i).Name, from.Field(i)
		if value.IsZero() {
			t.Errorf("the test leaves %s empty", name)
		}
		if got := to.FieldByName(name); !reflect.DeepEqual(got.Interface(), value.Interface()) {
			t.Errorf("%s of %v becomes %v", name, value, got)
		}
	}
}
