package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/apiserver"
)

// TestUpgradeOneByOne: while API servers of two versions answer alternately, as in a rolling
// upgrade, the proxy rereads a resource once, not after each change. A third version counts
// immediately.
func TestUpgradeOneByOne(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	wait := defaultTimeouts
	wait.origin, wait.restart = 5*time.Millisecond, time.Millisecond
	u.setVersions("v1.37.1")
	tp := startProxy(t, u, Options{Resources: []string{"pods"}, timeouts: wait})
	tp.ready()
	pods := tp.resource("pods")
	u.setVersions("v1.37.1", "v1.37.2")
	asked := u.versionsAsked()
	tp.until("many checks have been made", func() bool { return u.versionsAsked() > asked+40 })
	if n := pods.state().sessions; n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
	before := pods.state().sessions
	u.setVersions("v1.37.2", "v1.37.3", "v1.37.1")
	tp.until("the third version is found", func() bool { return pods.state().sessions > before })
	tp.until("it is cached", func() bool { return pods.serving() != nil })
}

// TestGroupGrows: a custom resource whose own definition is known stays as it is when the schema of
// its group changes, because another resource has come to it. Soon after the beginning that counts:
// the API server may have been told of a change later than the proxy.
func TestGroupGrows(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	u.setSchema("apis/example.com/v1", "one")
	u.setSchema("api/v1", "one")
	wait := defaultTimeouts
	wait.origin, wait.restart, wait.settle = 5*time.Millisecond, time.Millisecond, time.Nanosecond
	tp := startProxy(t, u, Options{Resources: []string{"pods", "widgets.v1.example.com"}, timeouts: wait})
	define(tp)
	tp.ready()
	pods, widgets := tp.resource("pods"), tp.resource("widgets")
	before := widgets.state().sessions
	u.setSchema("apis/example.com/v1", "two")
	asked := u.versionsAsked()
	tp.until("it is looked at", func() bool { return u.versionsAsked() > asked+20 })
	if n := widgets.state().sessions; n != before {
		t.Errorf("%d sessions, want %d", n, before)
	}
	of := pods.state().sessions
	u.setSchema("api/v1", "two")
	tp.until("a built-in resource is reread", func() bool { return pods.state().sessions > of })
	u.setSchema("apis/example.com/v1", "three")
	if _, err := definitions(tp).Patch(tp.ctx, "widgets.example.com", types.MergePatchType, []byte(`{"spec":{"preserveUnknownFields":false}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	tp.until("it is reread for its own definition", func() bool { return widgets.state().sessions > before })
}

// seenAt is what a definitionCheck sees at a minute, and whether it is a redefinition.
type seenAt struct {
	minute  int
	seen    definition
	differs bool
}

// TestDefinitionCheck: what of two servers counts as a redefinition, and when.
func TestDefinitionCheck(t *testing.T) {
	a, b := definition{"version": "a", "schema": "1"}, definition{"version": "b", "schema": "2"}
	crd := func(version, schema, generation string) definition {
		return definition{"version": version, "schema": schema, "definition": generation}
	}
	for name, test := range map[string]struct {
		seen  []seenAt // in sessions before
		begun definition
		steps []seenAt
	}{
		"nothing changes":                {begun: a, steps: []seenAt{{1, a, false}, {100, a, false}}},
		"the upstream is down":           {begun: a, steps: []seenAt{{1, definition{}, false}, {100, nil, false}}},
		"an upgrade":                     {begun: a, steps: []seenAt{{1, a, false}, {2, b, true}}},
		"what was seen in an upgrade":    {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, a, false}, {2, b, false}, {3, a, false}}},
		"once the servers agree":         {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, a, false}, {2, b, false}, {20, b, false}, {22, b, true}}},
		"the upstream is down meanwhile": {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, a, false}, {2, b, false}, {40, definition{}, false}, {41, b, true}}},
		"they had agreed before":         {seen: []seenAt{{-1, a, false}}, begun: b, steps: []seenAt{{1, b, false}, {30, b, false}}},
		"an upgrade is undone":           {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, a, false}, {10, a, false}, {21, a, true}}},
		"long after an upgrade":          {seen: []seenAt{{-30, a, false}}, begun: b, steps: []seenAt{{1, a, true}}},
		"a schema of one version":        {seen: []seenAt{{-1, definition{"version": "b", "schema": "3"}, false}}, begun: b, steps: []seenAt{{1, definition{"version": "b", "schema": "3"}, true}}},
		"a schema that no server had":    {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, definition{"version": "a", "schema": "3"}, true}}},
		"only a version, seen":           {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, definition{"version": "a"}, false}}},
		"only a schema, not seen":        {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, definition{"schema": "3"}, true}}},
		"a generation in an upgrade":     {seen: []seenAt{{0, a, false}}, begun: crd("b", "2", "g1"), steps: []seenAt{{1, crd("a", "1", "g2"), true}}},
		"the group at the beginning":     {begun: crd("a", "1", "g1"), steps: []seenAt{{2, crd("a", "2", "g1"), true}}},
		"the group later":                {begun: crd("a", "1", "g1"), steps: []seenAt{{2, crd("a", "1", "g1"), false}, {4, crd("a", "2", "g1"), false}, {5, definition{"version": "a", "schema": "2"}, false}}},
		"the group, which is forbidden":  {begun: a, steps: []seenAt{{10, definition{"version": "a", "schema": "2"}, true}}},
		"the definition cannot be read":  {begun: crd("a", "1", "g1"), steps: []seenAt{{10, definition{"version": "a", "schema": "2"}, true}}},
		"a text that was missing":        {begun: definition{"version": "a"}, steps: []seenAt{{1, a, false}, {2, definition{"version": "a", "schema": "9"}, true}}},
	} {
		began := time.Now()
		at := func(minute int) time.Time { return began.Add(time.Duration(minute) * time.Minute) }
		var history definitionHistory
		for _, s := range test.seen {
			history.add(s.seen, at(s.minute))
		}
		check := newDefinitionCheck(&history, test.begun, defaultTimeouts.settle, began)
		for _, s := range test.steps {
			if got := check.redefines(s.seen, at(s.minute)); got != s.differs {
				t.Errorf("%s: minute %d, %v: redefines: %t", name, s.minute, s.seen, got)
			}
		}
	}
}

// TestDefinitionHistory: no more is kept than a bounded number.
func TestDefinitionHistory(t *testing.T) {
	var history definitionHistory
	now := time.Now()
	for i := range 10 * maxDefinitions {
		history.add(definition{"version": fmt.Sprint(i)}, now)
	}
	if n := len(history.seen); n != maxDefinitions {
		t.Errorf("%d are kept", n)
	}
	if history.add(definition{"version": "x"}, now.Add(mixedVersions)); len(history.seen) != 1 {
		t.Errorf("kept: %v", history.seen)
	}
}

// setVersions sets the versions that the upstream tells, by turns.
func (u *fakeUpstream) setVersions(all ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.versions = all
}

// versionsAsked returns how often the upstream was asked for its version.
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
