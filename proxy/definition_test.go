package proxy

import (
	"testing"
	"time"

	"github.com/weirproject/weir/apiserver"
)

// TestRedefined: a resource that the upstream defines in another way is held anew, its watches end,
// and resources of other groups stay as they are.
func TestRedefined(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	u.setSchema("apis/example.com/v1", "one")
	wait := defaultTimeouts
	wait.origin = 20 * time.Millisecond
	f := startProxy(t, u, Options{Resources: []string{"pods", "widgets.v1.example.com"}, timeouts: wait})
	define(f)
	f.ready()
	pods, before := f.resource("pods").ready.Load(), f.resource("widgets").ready.Load()
	lines := f.watch("jane", "/apis/example.com/v1/widgets?watch=true")
	f.next(lines, "ADDED")
	u.setSchema("api/v1", "one") // which tells nothing, since it was not known
	u.setSchema("apis/example.com/v1", "two")
	for range lines { // they end
	}
	f.until("they are held anew", func() bool {
		sess := f.resource("widgets").ready.Load()
		return sess != nil && sess != before
	})
	if f.resource("pods").ready.Load() != pods {
		t.Error("pods are held anew, too")
	}
}

func TestDefinitionDiffers(t *testing.T) {
	was := definition{"version": "v1.37.1", "definition": "u/1"}
	for _, tt := range []struct {
		now  definition
		want bool
	}{
		{nil, false},
		{definition{"version": "v1.37.1", "definition": "u/1", "schema": "x"}, false},
		{definition{"version": "v1.37.2"}, true},
		{definition{"definition": "u/2"}, true},
		{definition{"schema": "x"}, false},
	} {
		if got := tt.now.differsFrom(was); got != tt.want {
			t.Errorf("%v: %v", tt.now, got)
		}
	}
	was.merge(definition{"schema": "x", "version": "v2"})
	if !(definition{"schema": "y"}).differsFrom(was) || was["version"] != "v1.37.1" {
		t.Errorf("has learned %v", was)
	}
}

// setSchema sets what the upstream's OpenAPI tells of a group and version.
func (u *fakeUpstream) setSchema(path, hash string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.schemas == nil {
		u.schemas = map[string]string{}
	}
	u.schemas[path] = hash
}
