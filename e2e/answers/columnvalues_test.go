package answers

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// variations are the values that the columns distinguish, by path. A path has no indexes.
var variations = []struct {
	path   *regexp.Regexp
	values []any
}{
	{regexp.MustCompile(`^status\.conditions\.type$`), []any{"Ready", "Ready", "Initialized", "PodScheduled", "Available", "Complete", "Failed", "Suspended",
		"FailureTarget", "SuccessCriteriaMet", "Approved", "Denied", "Dangling", "Established", "Running", "Succeeded", "Issued",
		"PodGroupInitiallyScheduled", "DisruptionTarget"}},
	{regexp.MustCompile(`^status\.conditions\.status$`), []any{"True", "True", "False", "Unknown"}},
	{regexp.MustCompile(`^status\.conditions\.reason$`), []any{"SchedulingGated", "Other", "Other", "Other"}},
	{regexp.MustCompile(`^status\.reason$`), []any{"", "", "NodeLost", "Evicted"}},
	{regexp.MustCompile(`(waiting|terminated)\.reason$`), []any{"", "Completed", "Completed", "Error", "PodInitializing", "CrashLoopBackOff"}},
	{regexp.MustCompile(`^status\.phase$`), []any{"Pending", "Running", "Succeeded", "Failed", "Active", "Bound"}},
	{regexp.MustCompile(`\.exitCode$`), []any{0, 0, 1, 137}},
	{regexp.MustCompile(`\.signal$`), []any{0, 0, 9}},
	{regexp.MustCompile(`\.restartCount$`), []any{0, 1, 7}},
	{regexp.MustCompile(`^status\..*(\.ready|\.started)$`), []any{true, true, false}},
	{regexp.MustCompile(`^spec\.initContainers\.name$|Statuses\.name$`), []any{"a", "b"}},
	{regexp.MustCompile(`^spec\.initContainers\.restartPolicy$`), []any{"Always", "Always", "OnFailure"}},
	{regexp.MustCompile(`accessModes$`), []any{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"}},
	{regexp.MustCompile(`^spec\.volumeName$`), []any{"", "pv"}},
	{regexp.MustCompile(`^subjects\.kind$`), []any{"User", "Group", "ServiceAccount", "Other"}},
	{regexp.MustCompile(`^status\.addresses\.type$`), []any{"InternalIP", "ExternalIP", "Hostname"}},
	{regexp.MustCompile(`^spec\.rules\.host$`), []any{"", "a.b", "c"}},
	{regexp.MustCompile(`^spec\.parallelism$`), []any{0, 1, 3}},
	{regexp.MustCompile(`ownerReferences\.apiVersion$`), []any{"apps/v1", "v1"}},
	{regexp.MustCompile(`ownerReferences\.controller$`), []any{true, true, false}},
	{regexp.MustCompile(`^spec\.unschedulable$`), []any{true, false}},
	{regexp.MustCompile(`^spec\.expirationSeconds$`), []any{600, 3600, 864000}},
	{regexp.MustCompile(`^(spec|status)\.versions\.(served|storage)$`), []any{true, false}},
	{regexp.MustCompile(`^message$|^note$`), []any{" several\nlines \n", "one"}},
}

// presets are fields that random objects lack, with their probability in percent. The values are
// those of variations.
var presets = []struct {
	kind, path string
	percent    int
	value      func(d *rand.Rand) any
}{
	{"", "metadata.deletionTimestamp", 20, func(d *rand.Rand) any { return someTime(d) }},
	{"", "metadata.annotations", 60, func(d *rand.Rand) any {
		return map[string]any{
			"ingressclass.kubernetes.io/is-default-class": []string{"true", "false"}[d.IntN(2)], "volume.beta.kubernetes.io/storage-class": "beta",
			"storageclass.kubernetes.io/is-default-class": "true",
		}
	}},
	{"Node", "metadata.labels", 60, func(d *rand.Rand) any {
		return map[string]any{"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": "x", "node-role.kubernetes.io/": "", "kubernetes.io/role": []string{"", "a", "c"}[d.IntN(3)]}
	}},
	{"Service", "spec.type", 100, func(d *rand.Rand) any {
		return []string{"ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer", "ExternalName"}[d.IntN(5)]
	}},
	{"Service", "status.loadBalancer", 70, balancersOf},
	{"Ingress", "status.loadBalancer", 70, balancersOf},
	{"ResourceQuota", "status", 80, func(d *rand.Rand) any {
		return map[string]any{
			"hard": map[string]any{"pods": "10", "limits.cpu": "2500m", "limits": "1", "requests.memory": "2Gi"},
			"used": map[string]any{"pods": "3", "requests.memory": "1048576"},
		}
	}},
	{"ResourceClaim", "status", 70, func(d *rand.Rand) any {
		status := map[string]any{"allocation": map[string]any{}}
		if d.IntN(2) == 0 {
			status["reservedFor"] = []any{map[string]any{"resource": "pods", "name": "x", "uid": "y"}}
		}
		return status
	}},
	{"Pod", "status.phase", 90, func(*rand.Rand) any { return "" }},
	{"Pod", "status.reason", 20, func(*rand.Rand) any { return "" }},
	{"Pod", "status.podIPs", 50, func(*rand.Rand) any { return []any{map[string]any{"ip": "10.0.0.1"}, map[string]any{"ip": "fd00::1"}} }},
	{"Pod", "status.nominatedNodeName", 50, func(*rand.Rand) any { return "n" }},
	{"Pod", "spec.readinessGates", 50, func(*rand.Rand) any {
		return []any{map[string]any{"conditionType": "Available"}, map[string]any{"conditionType": "Established"}}
	}},
	{"Pod", "spec.initContainers", 70, func(d *rand.Rand) any { return []any{container(d), container(d)}[:d.IntN(3)] }},
	{"Pod", "status.initContainerStatuses", 70, func(d *rand.Rand) any { return []any{containerStatus(d), containerStatus(d)}[:d.IntN(3)] }},
	{"Pod", "status.containerStatuses", 80, func(d *rand.Rand) any {
		return []any{containerStatus(d), containerStatus(d), containerStatus(d)}[:d.IntN(4)]
	}},
	{"Pod", "status.conditions", 70, someConditions},
	{"Job", "status.conditions", 70, someConditions},
	{"Node", "status.conditions", 70, someConditions},
	{"CronJob", "status.lastScheduleTime", 50, func(d *rand.Rand) any { return someTime(d) }},
	{"Job", "status.startTime", 80, func(d *rand.Rand) any { return someTime(d) }},
	{"Job", "status.completionTime", 40, func(d *rand.Rand) any { return someTime(d) }},
	{"PersistentVolume", "spec.capacity", 80, storage},
	{"PersistentVolume", "spec.accessModes", 80, func(*rand.Rand) any { return []any{""} }},
	{"PersistentVolumeClaim", "spec.volumeName", 80, func(*rand.Rand) any { return "" }},
	{"PersistentVolumeClaim", "spec.storageClassName", 50, func(*rand.Rand) any { return "gold" }},
	{"PersistentVolumeClaim", "spec.volumeAttributesClassName", 50, func(*rand.Rand) any { return "silver" }},
	{"PersistentVolumeClaim", "status.capacity", 80, storage},
	{"PersistentVolumeClaim", "status.accessModes", 80, func(*rand.Rand) any { return []any{""} }},
	{"PersistentVolumeClaim", "status.phase", 80, func(*rand.Rand) any { return "" }},
	{"PodDisruptionBudget", "spec.minAvailable", 50, func(d *rand.Rand) any { return []any{3, "50%"}[d.IntN(2)] }},
	{"PodDisruptionBudget", "spec.maxUnavailable", 50, func(d *rand.Rand) any { return []any{0, "10%"}[d.IntN(2)] }},
	{"FlowSchema", "status.conditions", 70, someConditions},
	{"CertificateSigningRequest", "status.conditions", 70, someConditions},
}

func balancersOf(d *rand.Rand) any {
	return map[string]any{"ingress": []any{
		map[string]any{"ip": "10.0.0.2"}, map[string]any{"hostname": "a.very.long.name.example.com"}, map[string]any{"ip": "10.0.0.1"}, map[string]any{},
	}[:d.IntN(5)]}
}

func storage(d *rand.Rand) any {
	return map[string]any{"storage": []string{"1Gi", "1500M", "0", "1073741824"}[d.IntN(4)]}
}

func container(d *rand.Rand) any {
	c := map[string]any{"name": "a", "image": "i"}
	if d.IntN(2) == 0 {
		c["restartPolicy"] = "Always"
	}
	return c
}

// containerStatus returns a container's status, whose values vary replaces.
func containerStatus(d *rand.Rand) any {
	ended := func() any {
		return map[string]any{"exitCode": 0, "signal": 0, "reason": "", "startedAt": someTime(d), "finishedAt": someTime(d)}
	}
	state := map[string]any{}
	switch d.IntN(5) {
	case 0:
		state["waiting"] = map[string]any{"reason": ""}
	case 1, 2:
		state["terminated"] = ended()
	case 3:
		state["running"] = map[string]any{"startedAt": someTime(d)}
	}
	s := map[string]any{"name": "a", "ready": true, "restartCount": 0, "image": "i", "imageID": "j", "state": state, "lastState": map[string]any{}}
	if d.IntN(2) == 0 {
		s["lastState"] = map[string]any{"terminated": ended()}
	}
	if d.IntN(2) == 0 {
		s["started"] = true
	}
	return s
}

func someConditions(d *rand.Rand) any {
	var all []any
	for range d.IntN(4) {
		all = append(all, map[string]any{"type": "", "status": "", "reason": ""})
	}
	return all
}

// someTime returns a time of any age, sometimes in the future.
func someTime(d *rand.Rand) string {
	age := time.Duration(d.Int64N(int64([]time.Duration{time.Minute, 10 * time.Minute, 8 * time.Hour, 200 * time.Hour, 3 * 8760 * time.Hour, 12 * 8760 * time.Hour}[d.IntN(6)])))
	if d.IntN(10) == 0 {
		age = -age
	}
	return time.Now().Add(-age).UTC().Format(time.RFC3339)
}

// asAny returns a value in the form that JSON decodes to.
func asAny(t *testing.T, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	check.NoError(t, err)
	check.NoError(t, json.Unmarshal(text, &out))
	return out
}

// varied returns a JSON value whose fields have values of variations, and whose lists have other
// lengths. Times get any age.
func varied(d *rand.Rand, path string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = varied(d, strings.TrimPrefix(path+"."+name, "."), v[name])
		}
	case []any:
		if n := len(v); n > 0 && grows.MatchString(path) {
			for range d.IntN(5) {
				v = append(v, asCopy(v[d.IntN(n)]))
			}
		}
		for i := range v {
			v[i] = varied(d, path, v[i])
		}
		return v
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil && !at.IsZero() && path != "metadata.creationTimestamp" && path != "metadata.deletionTimestamp" {
			if strings.HasSuffix(v, "000Z") || strings.Contains(v, ".") { // a MicroTime
				return strings.TrimSuffix(someTime(d), "Z") + ".000000Z"
			}
			return someTime(d)
		}
	}
	for _, variation := range variations {
		if variation.path.MatchString(path) {
			return variation.values[d.IntN(len(variation.values))]
		}
	}
	return v
}

// grows matches the lists of which some cells show only the first elements.
var grows = regexp.MustCompile(`^(subsets|subsets\.(addresses|ports)|ports|endpoints|endpoints\.addresses|spec\.rules|spec\.metrics|status\.currentMetrics|` +
	`spec\.ports|subjects|spec\.versions|status\.storageVersions|status\.conditions|spec\.externalIPs|status\.addresses|accessModes|spec\.accessModes)$`)

func asCopy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name := range v {
			out[name] = asCopy(v[name])
		}
		return out
	case []any:
		out := []any{}
		for i := range v {
			out = append(out, asCopy(v[i]))
		}
		return out
	}
	return v
}
