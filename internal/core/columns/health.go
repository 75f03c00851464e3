package columns

import (
	"slices"
	"time"
)

// Healthy reports whether an object needs no attention, and whether a rule for its kind or a
// condition says so. An object is not healthy if it is being deleted, has failed, or is not yet in
// the state that its spec asks for; of kinds without a rule, if a condition Ready or Available has
// the status False. The verdict is a heuristic, for example to show unhealthy objects first.
// Healthy only reads the object, which is of the same form as for [Set.Cells].
func (s *Set) Healthy(object any) (healthy, known bool) {
	o := valueOf(object, time.Time{})
	healthy, known = !o.deleting() && (s.healthy == nil || s.healthy(o)), s.healthy != nil || o.deleting()
	for _, kind := range []string{"Ready", "Available"} {
		status := o.condition(kind).at("status").str()
		known = known || status != ""
		healthy = healthy && (status != "False" || podEnded(o))
	}
	return healthy, known
}

// podEnded reports whether the object is a pod that has succeeded: such a pod is not ready.
func podEnded(o value) bool { return o.at("status.phase").str() == "Succeeded" }

// health contains the rules of built-in kinds. The keys are those of builtin.
var health = map[string]func(o value) bool{
	"Event":                 func(o value) bool { return o.at("type").str() != "Warning" },
	"Event.events.k8s.io":   func(o value) bool { return o.at("type").str() != "Warning" },
	"Namespace":             inPhase("Active"),
	"Node":                  func(o value) bool { return nodeStatus(o) == "Ready" },
	"PersistentVolume":      inPhase("Available", "Bound", "Released"),
	"PersistentVolumeClaim": inPhase("Bound"),
	"Pod": func(o value) bool {
		p := podOf(o)
		return podEnded(o) || p.status == "Running" && p.ready == p.total
	},
	"ReplicationController": allReady,
	"Service":               func(o value) bool { return externalIP(o) != "<pending>" },

	"CustomResourceDefinition.apiextensions.k8s.io": func(o value) bool { return hasTrue(o, "Established") },

	"DaemonSet.apps": func(o value) bool {
		return o.at("status.numberReady").num() >= o.at("status.desiredNumberScheduled").num()
	},
	"Deployment.apps":  allReady,
	"ReplicaSet.apps":  allReady,
	"StatefulSet.apps": allReady,
	"Job.batch":        func(o value) bool { return !o.holds("Failed") && !o.holds("FailureTarget") },

	"CertificateSigningRequest.certificates.k8s.io": func(o value) bool { return o.condition("Approved").exists() && !o.condition("Failed").exists() },
	"FlowSchema.flowcontrol.apiserver.k8s.io":       func(o value) bool { return !o.holds("Dangling") },
	"HorizontalPodAutoscaler.autoscaling":           func(o value) bool { return o.condition("AbleToScale").at("status").str() != "False" },
	"PodDisruptionBudget.policy": func(o value) bool {
		return o.at("status.currentHealthy").num() >= o.at("status.desiredHealthy").num()
	},
	"VolumeAttachment.storage.k8s.io": func(o value) bool { return o.at("status.attached").is() && !o.at("status.attachError").exists() },
}

// allReady reports whether all wanted replicas are ready.
func allReady(o value) bool {
	return o.at("status.readyReplicas").num() >= o.at("spec.replicas").num()
}

func inPhase(phases ...string) func(value) bool {
	return func(o value) bool { return slices.Contains(phases, o.at("status.phase").str()) }
}
