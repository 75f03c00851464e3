package columns_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/testing/check"
)

// now is the time of all tests. The containers of the tests ended five minutes before it.
var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const ended = `"finishedAt":"2026-05-01T11:55:00Z"`

var (
	pods    = columns.Of(corev1.SchemeGroupVersion.WithKind("Pod"))
	running = `{"name":"main","ready":true,"restartCount":0,"state":{"running":{}}}`
	waits   = `{"name":"main","ready":false,"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},` +
		`"lastState":{"terminated":{"exitCode":1,` + ended + `}}}`
	plain, sidecar = `{"name":"init"}`, `{"name":"side","restartPolicy":"Always"}`
	ready          = `[{"type":"Ready","status":"True"}]`
)

// terminated returns the status of a container that has ended.
func terminated(name, fields string) string {
	return `{"name":"` + name + `","ready":false,"restartCount":0,"state":{"terminated":{` + fields + `}}}`
}

// podStates are pods, and the cells Ready, Status and Restarts that kube-apiserver computes.
var podStates = []struct {
	name                           string
	metadata, phase, reason        string
	inits, initStatuses            string // comma-separated elements of lists
	containers                     int
	statuses, conditions           string
	wantReady, wantStatus, restart string
	healthy                        bool
}{
	{name: "running", phase: "Running", containers: 1, statuses: running, conditions: ready, wantReady: "1/1", wantStatus: "Running", restart: "0", healthy: true},
	{name: "one of two is ready", phase: "Running", containers: 2, statuses: running + `,{"name":"b","state":{"running":{}}}`,
		wantReady: "1/2", wantStatus: "Running", restart: "0"},
	{name: "pending", phase: "Pending", containers: 1, wantReady: "0/1", wantStatus: "Pending", restart: "0"},
	{name: "gated", phase: "Pending", containers: 1, conditions: `[{"type":"PodScheduled","status":"False","reason":"SchedulingGated"}]`,
		wantReady: "0/1", wantStatus: "SchedulingGated", restart: "0"},
	{name: "evicted", phase: "Failed", reason: "Evicted", containers: 1, wantReady: "0/1", wantStatus: "Evicted", restart: "0"},
	{name: "restarts", phase: "Running", containers: 1, statuses: waits, wantReady: "0/1", wantStatus: "CrashLoopBackOff", restart: "3 (5m ago)"},
	{name: "the first container that waits counts", phase: "Running", containers: 2,
		statuses:  `{"name":"a","state":{"waiting":{"reason":"ErrImagePull"}}},` + waits,
		wantReady: "0/2", wantStatus: "ErrImagePull", restart: "3 (5m ago)"},
	{name: "completed", phase: "Succeeded", containers: 1, statuses: terminated("main", `"exitCode":0,"reason":"Completed"`),
		conditions: `[{"type":"Ready","status":"False"}]`, wantReady: "0/1", wantStatus: "Completed", restart: "0", healthy: true},
	{name: "failed without a reason", phase: "Failed", containers: 1, statuses: terminated("main", `"exitCode":3`), wantReady: "0/1", wantStatus: "ExitCode:3", restart: "0"},
	{name: "killed", phase: "Failed", containers: 1, statuses: terminated("main", `"exitCode":137,"signal":9`), wantReady: "0/1", wantStatus: "Signal:9", restart: "0"},
	{name: "one completed, one runs, ready", phase: "Running", containers: 2, conditions: ready,
		statuses: terminated("a", `"exitCode":0,"reason":"Completed"`) + "," + running, wantReady: "1/2", wantStatus: "Running", restart: "0"},
	{name: "one completed, one runs, not ready", phase: "Running", containers: 2,
		statuses: terminated("a", `"exitCode":0,"reason":"Completed"`) + "," + running, wantReady: "1/2", wantStatus: "NotReady", restart: "0"},
	{name: "one completed, one failed", phase: "Running", containers: 2,
		statuses:  terminated("a", `"exitCode":0,"reason":"Completed"`) + "," + terminated("b", `"exitCode":1,"reason":"Error"`),
		wantReady: "0/2", wantStatus: "Error", restart: "0"},
	{name: "an init container runs", phase: "Pending", inits: plain + "," + plain, containers: 1,
		initStatuses: terminated("init", `"exitCode":0`) + `,{"name":"init","state":{"running":{}}}`,
		wantReady:    "0/1", wantStatus: "Init:1/2", restart: "0"},
	{name: "an init container failed", phase: "Pending", inits: plain, containers: 1, initStatuses: terminated("init", `"exitCode":1,"reason":"Error"`),
		wantReady: "0/1", wantStatus: "Init:Error", restart: "0"},
	{name: "an init container was killed", phase: "Pending", inits: plain, containers: 1, initStatuses: terminated("init", `"exitCode":137,"signal":9`),
		wantReady: "0/1", wantStatus: "Init:Signal:9", restart: "0"},
	{name: "an init container waits", phase: "Pending", inits: plain, containers: 1, wantReady: "0/1", wantStatus: "Init:CrashLoopBackOff", restart: "2",
		initStatuses: `{"name":"init","restartCount":2,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}`},
	{name: "an init container has not started", phase: "Pending", inits: plain, containers: 1, wantReady: "0/1", wantStatus: "Init:0/1", restart: "0",
		initStatuses: `{"name":"init","state":{"waiting":{"reason":"PodInitializing"}}}`},
	{name: "a sidecar counts", phase: "Running", inits: sidecar, containers: 1, statuses: running, wantReady: "2/2", wantStatus: "Running", restart: "4", healthy: true,
		initStatuses: `{"name":"side","ready":true,"started":true,"restartCount":4,"state":{"running":{}}}`},
	{name: "restarts of initialization do not count later", phase: "Running", inits: plain, containers: 1, statuses: running,
		initStatuses: `{"name":"init","restartCount":4,"state":{"terminated":{"exitCode":0}}}`, wantReady: "1/1", wantStatus: "Running", restart: "0", healthy: true},
	{name: "a sidecar failed after initialization", phase: "Running", inits: plain + "," + sidecar, containers: 1, statuses: running,
		conditions: `[{"type":"Initialized","status":"True"}]`, initStatuses: `{"name":"init","restartCount":9,"state":{"terminated":{"exitCode":0}}},` +
			`{"name":"side","restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}`,
		wantReady: "1/2", wantStatus: "Init:CrashLoopBackOff", restart: "4"},
	{name: "terminating", metadata: `"deletionTimestamp":"2026-05-01T12:00:00Z"`, phase: "Running", containers: 1, statuses: running,
		wantReady: "1/1", wantStatus: "Terminating", restart: "0"},
	{name: "ended and being deleted", metadata: `"deletionTimestamp":"2026-05-01T12:00:00Z"`, phase: "Failed", containers: 1, wantReady: "0/1", wantStatus: "Failed", restart: "0"},
	{name: "on a lost node", metadata: `"deletionTimestamp":"2026-05-01T12:00:00Z"`, phase: "Running", reason: "NodeLost", containers: 1,
		wantReady: "0/1", wantStatus: "Unknown", restart: "0"},
}

// TestPods checks the cells and the verdict for each state of a pod, from both forms of the object.
func TestPods(t *testing.T) {
	for _, tc := range podStates {
		t.Run(tc.name, func(t *testing.T) {
			list := strings.TrimSuffix(strings.Repeat(`{"name":"c"},`, tc.containers), ",")
			text := `{"apiVersion":"v1","kind":"Pod","metadata":{` + tc.metadata + `},"spec":{"containers":[` + list + `],"initContainers":[` + tc.inits + `]},` +
				`"status":{"phase":"` + tc.phase + `","reason":"` + tc.reason + `","conditions":` + orNull(tc.conditions) +
				`,"initContainerStatuses":[` + tc.initStatuses + `],"containerStatuses":[` + tc.statuses + `]}}`
			for _, object := range forms(t, text, &corev1.Pod{}) {
				cells := pods.Cells(object, now)
				check.Equal(t, cells[1].(string), tc.wantReady, "%T: ready", object)
				check.Equal(t, cells[2].(string), tc.wantStatus, "%T: status", object)
				check.Equal(t, cells[3].(string), tc.restart, "%T: restarts", object)
				healthy, _ := pods.Healthy(object)
				check.Equal(t, healthy, tc.healthy, "%T: healthy", object)
			}
		})
	}
}

func orNull(text string) string {
	if text == "" {
		return "null"
	}
	return text
}

// forms returns the object with this JSON as an unstructured object, and decoded to typed.
func forms(t *testing.T, text string, typed any) []any {
	t.Helper()
	u := &unstructured.Unstructured{}
	check.NoError(t, u.UnmarshalJSON([]byte(text)))
	check.NoError(t, json.Unmarshal([]byte(text), typed))
	return []any{u, typed}
}
