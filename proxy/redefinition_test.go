package proxy

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestUpgradeOneByOne checks a rolling upgrade, in which API servers of two versions answer
// alternately. The proxy rereads a resource once, not after each change. When a server with a third
// version answers, the proxy rereads the resource again.
func TestUpgradeOneByOne(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	wait := timing(func(w *timeouts) { w.Origin, w.Restart = 5*time.Millisecond, time.Millisecond })
	u.setVersions("v1.37.1")
	tp := startProxy(t, u, Options{Resources: []string{"pods"}, timeouts: wait})
	tp.ready()
	pods := tp.resource("pods")
	u.setVersions("v1.37.1", "v1.37.2")
	asked := u.versionsAsked()
	tp.until("many checks have been made", func() bool { return u.versionsAsked() > asked+40 })
	check.Equal(t, pods.State().Sessions, 2, "sessions, want 2")
	before := pods.State().Sessions
	u.setVersions("v1.37.2", "v1.37.3", "v1.37.1")
	tp.until("the third version is found", func() bool { return pods.State().Sessions > before })
	tp.until("it is cached", func() bool { return pods.Serving() != nil })
}

// TestGroupGrows checks a custom resource whose definition the proxy knows. If the schema of its
// group changes, for instance because the group gets another resource, the proxy does not reread
// the resource. It rereads a custom resource when its definition changes. It rereads a built-in
// resource when the schema of its group changes.
func TestGroupGrows(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	u.setSchema("apis/example.com/v1", "one")
	u.setSchema("api/v1", "one")
	wait := timing(func(w *timeouts) {
		w.Origin, w.Restart, w.Settle = 5*time.Millisecond, time.Millisecond, time.Nanosecond
	})
	tp := startProxy(t, u, Options{Resources: []string{"pods", "widgets.v1.example.com"}, timeouts: wait})
	define(tp)
	tp.ready()
	pods, widgets := tp.resource("pods"), tp.resource("widgets")
	before := widgets.State().Sessions
	u.setSchema("apis/example.com/v1", "two")
	asked := u.versionsAsked()
	tp.until("it is looked at", func() bool { return u.versionsAsked() > asked+20 })
	if n := widgets.State().Sessions; n != before {
		t.Errorf("%d sessions, want %d", n, before)
	}
	of := pods.State().Sessions
	u.setSchema("api/v1", "two")
	tp.until("a built-in resource is reread", func() bool { return pods.State().Sessions > of })
	u.setSchema("apis/example.com/v1", "three")
	must(t)(definitions(tp).Patch(tp.ctx, "widgets.example.com", types.MergePatchType, []byte(`{"spec":{"preserveUnknownFields":false}}`), metav1.PatchOptions{}))
	tp.until("it is reread for its own definition", func() bool { return widgets.State().Sessions > before })
}

// setVersions sets the versions that the upstream returns in turn.
func (u *fakeUpstream) setVersions(all ...string) {
	u.set(func() { u.versions = all })
}

// versionsAsked returns how often the proxy has asked the upstream for its version.
func (u *fakeUpstream) versionsAsked() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.toldVersions
}

// serveVersion answers /version.
func (u *fakeUpstream) serveVersion(w http.ResponseWriter, version string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"major": "1", "minor": "37", "gitVersion": version})
}
