package clientgo

import (
	"reflect"
	"testing"
	"time"

	"github.com/weirproject/weir"
)

// TestListWatchConfig: the reflector's Config gets each field of Options.ListWatch and of its
// Backoff, and the Server.
func TestListWatchConfig(t *testing.T) {
	o := Options{Server: new(weir.ServerGroup), ListWatch: weir.ListWatch{
		Mode: weir.ModePages, Consistency: weir.ConsistencyAny, PageSize: 1, WatchTimeout: 2 * time.Second, BookmarkDeadline: time.Minute, MaxLists: 3,
		Backoff: weir.Backoff{Min: 4, Max: 5, Denied: 6, Healthy: 7, Random: func() float64 { return 0.5 }},
	}}
	cfg := o.reflectorConfig()
	if cfg.Server == nil {
		t.Error("no Server")
	}
	for _, structs := range [][2]reflect.Value{
		{reflect.ValueOf(o.ListWatch), reflect.ValueOf(cfg)}, {reflect.ValueOf(o.ListWatch.Backoff), reflect.ValueOf(cfg.Backoff)},
	} {
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
