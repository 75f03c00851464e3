package columns

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kubectl's texts for an absent value.
const (
	none  = "<none>"
	unset = "<unset>"
)

var (
	name    = text("Name", "metadata.name").named()
	age     = since("Age", "metadata.creationTimestamp")
	created = column{
		metav1.TableColumnDefinition{Name: "Created At", Type: "date"},
		func(o value) any { return o.at("metadata.creationTimestamp").time().UTC().Format(time.RFC3339) },
	}
)

// builtin contains the columns of the built-in kinds whose columns are not only Name and Age, by
// kind and group. They are those of pkg/printers/internalversion and of some registries in
// kubernetes.
var builtin = map[string][]column{
	"ConfigMap":  {name, col("Data", func(o value) int64 { return int64(o.at("data").len() + o.at("binaryData").len()) }).asText(), age},
	"Endpoints":  {name, col("Endpoints", endpoints), age},
	"Event":      eventColumns("involvedObject", "message", "reportingComponent", "source", "firstTimestamp", "lastTimestamp", "count"),
	"LimitRange": {name, created},
	"Namespace":  {name, text("Status", "status.phase"), age},
	"Node": {
		name, col("Status", nodeStatus), col("Roles", nodeRoles), age, text("Version", "status.nodeInfo.kubeletVersion"),
		col("Internal-IP", func(o value) string { return nodeAddress(o, "InternalIP") }).wide(),
		col("External-IP", func(o value) string { return nodeAddress(o, "ExternalIP") }).wide(),
		text("OS-Image", "status.nodeInfo.osImage", "<unknown>").wide(),
		col("Kernel-Version", func(o value) string {
			kernel, arch := text("", "status.nodeInfo.kernelVersion", "<unknown>").cell(o), o.at("status.nodeInfo.architecture").str()
			if arch == "" {
				return kernel.(string)
			}
			return fmt.Sprintf("%s (%s)", kernel, arch)
		}).wide(),
		text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", "<unknown>").wide(),
	},
	"PersistentVolume": {
		name, quantityIn("Capacity", "spec.capacity"), col("Access Modes", func(o value) string { return accessModes(o.at("spec.accessModes")) }),
		text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"), phase,
		col("Claim", func(o value) string {
			if c := o.at("spec.claimRef"); c.exists() {
				return c.at("namespace").str() + "/" + c.at("name").str()
			}
			return ""
		}),
		storageClass, optional("VolumeAttributesClass", "spec.volumeAttributesClassName", unset), text("Reason", "status.reason"), age,
		optional("VolumeMode", "spec.volumeMode", unset).wide(),
	},
	"PersistentVolumeClaim": {
		name, phase, text("Volume", "spec.volumeName"), onceBound(quantityIn("Capacity", "status.capacity")),
		onceBound(col("Access Modes", func(o value) string { return accessModes(o.at("status.accessModes")) })), storageClass,
		optional("VolumeAttributesClass", "spec.volumeAttributesClassName", unset), age, optional("VolumeMode", "spec.volumeMode", unset).wide(),
	},
	"Pod": podColumns,
	"PodTemplate": {
		name, joined("Containers", "template.spec.containers", "name", ""), joined("Images", "template.spec.containers", "image", ""),
		labelsOf("Pod Labels", "template.metadata.labels"),
	},
	"ReplicationController": slices.Concat(replicas, templateColumns("spec.template"), []column{labelsOf("Selector", "spec.selector").wide()}),
	"ResourceQuota": {
		name, col("Request", func(o value) string { return quotas(o, false) }), col("Limit", func(o value) string { return quotas(o, true) }), age,
	},
	"Secret": {name, text("Type", "type"), count("Data", "data").asText(), age},
	"Service": {
		name, text("Type", "spec.type"),
		col("Cluster-IP", func(o value) string {
			if ips := o.at("spec.clusterIPs").texts(""); len(ips) > 0 {
				return ips[0]
			}
			return none
		}),
		col("External-IP", externalIP), col("Port(s)", servicePorts), age, labelsOf("Selector", "spec.selector").wide(),
	},

	"MutatingAdmissionPolicy.admissionregistration.k8s.io":          {name, count("Mutations", "spec.mutations"), paramKind, age},
	"MutatingAdmissionPolicyBinding.admissionregistration.k8s.io":   {name, text("PolicyName", "spec.policyName"), paramRef, age},
	"MutatingWebhookConfiguration.admissionregistration.k8s.io":     {name, count("Webhooks", "webhooks"), age},
	"ValidatingAdmissionPolicy.admissionregistration.k8s.io":        {name, count("Validations", "spec.validations"), paramKind, age},
	"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io": {name, text("PolicyName", "spec.policyName"), paramRef, age},
	"ValidatingWebhookConfiguration.admissionregistration.k8s.io":   {name, count("Webhooks", "webhooks"), age},

	"CustomResourceDefinition.apiextensions.k8s.io": {
		name, text("Scope", "spec.scope"), col("Versions", servedVersions), created, text("Group", "spec.group").wide(),
		text("Kind", "spec.names.kind").wide(), joined("ShortNames", "spec.names.shortNames", "", "").wide(),
		col("Established", func(o value) bool { return hasTrue(o, "Established") }).wide(),
	},
	"APIService.apiregistration.k8s.io": {name, col("Service", serviceOfAPI), col("Available", availability), age},

	"ControllerRevision.apps": {name, col("Controller", controller), number("Revision", "revision").asText(), age},
	"DaemonSet.apps": slices.Concat([]column{
		name, number("Desired", "status.desiredNumberScheduled"), number("Current", "status.currentNumberScheduled"),
		number("Ready", "status.numberReady"), number("Up-to-date", "status.updatedNumberScheduled"),
		number("Available", "status.numberAvailable"), labelsOf("Node Selector", "spec.template.spec.nodeSelector"), age,
	}, templateColumns("spec.template"), []column{selectorOf("Selector", "spec.selector").wide()}),
	"Deployment.apps": slices.Concat([]column{
		name, readyOf, number("Up-to-date", "status.updatedReplicas").asText(), number("Available", "status.availableReplicas").asText(), age,
	}, templateColumns("spec.template"), []column{col("Selector", deploymentSelector).wide()}),
	"ReplicaSet.apps":  slices.Concat(replicas, templateColumns("spec.template"), []column{selectorOf("Selector", "spec.selector").wide()}),
	"StatefulSet.apps": slices.Concat([]column{name, readyOf, age}, templateColumns("spec.template")),

	"HorizontalPodAutoscaler.autoscaling": {
		name, col("Reference", func(o value) string { return reference(o.at("spec.scaleTargetRef")) }), col("Targets", hpaTargets),
		optional("MinPods", "spec.minReplicas", unset), number("MaxPods", "spec.maxReplicas").asText(),
		number("Replicas", "status.currentReplicas").asText(), age,
	},
	"CronJob.batch": slices.Concat([]column{
		name, text("Schedule", "spec.schedule"), optional("Timezone", "spec.timeZone", none),
		{
			metav1.TableColumnDefinition{Name: "Suspend", Type: "boolean"},
			func(o value) any { // a text, although the type is boolean
				if s := o.at("spec.suspend"); s.exists() {
					return map[bool]string{true: "True", false: "False"}[s.is()]
				}
				return unset
			},
		},
		count("Active", "status.active"),
		sinceOptional("Last Schedule", "status.lastScheduleTime", none),
		age,
	}, templateColumns("spec.jobTemplate.spec.template"), []column{selectorOf("Selector", "spec.jobTemplate.spec.selector").wide()}),
	"Job.batch": slices.Concat([]column{name, col("Status", jobStatus), col("Completions", completions), col("Duration", jobDuration), age},
		templateColumns("spec.template"), []column{selectorOf("Selector", "spec.selector").wide()}),

	"CertificateSigningRequest.certificates.k8s.io": {
		name, age, text("SignerName", "spec.signerName", none), text("Requestor", "spec.username"), col("RequestedDuration", requestedDuration),
		col("Condition", csrStatus),
	},
	"ClusterTrustBundle.certificates.k8s.io": {name, text("SignerName", "spec.signerName", none)},
	"PodCertificateRequest.certificates.k8s.io": {
		name, text("PodName", "spec.podName"), text("ServiceAccountName", "spec.serviceAccountName"), text("NodeName", "spec.nodeName"),
		text("SignerName", "spec.signerName"),
		col("State", func(o value) string { return lastCondition(o, "", "Pending", "Issued", "Denied", "Failed") }),
		labelsOf("UnverifiedUserAnnotations", "spec.unverifiedUserAnnotations"),
	},
	"Lease.coordination.k8s.io":      {name, text("Holder", "spec.holderIdentity"), age},
	"EndpointSlice.discovery.k8s.io": {name, text("AddressType", "addressType"), col("Ports", slicePorts), col("Endpoints", sliceEndpoints), age},
	"Event.events.k8s.io": eventColumns("regarding", "note", "reportingController",
		"deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount"),
	"FlowSchema.flowcontrol.apiserver.k8s.io": {
		name, text("PriorityLevel", "spec.priorityLevelConfiguration.name"), number("MatchingPrecedence", "spec.matchingPrecedence").asText(),
		optional("DistinguisherMethod", "spec.distinguisherMethod.type", none), age,
		col("MissingPL", func(o value) string { return o.condition("Dangling").at("status").or("?") }),
	},
	"PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io": {
		name, text("Type", "spec.type"), numberWith("NominalConcurrencyShares", "spec.limited", "nominalConcurrencyShares"),
		numberWith("Queues", "spec.limited.limitResponse.queuing", "queues"), numberWith("HandSize", "spec.limited.limitResponse.queuing", "handSize"),
		numberWith("QueueLengthLimit", "spec.limited.limitResponse.queuing", "queueLengthLimit"), age,
	},
	"Ingress.networking.k8s.io": {
		name, optional("Class", "spec.ingressClassName", none), col("Hosts", hosts), col("Address", balancers),
		col("Ports", func(o value) string {
			if o.at("spec.tls").len() > 0 {
				return "80, 443"
			}
			return "80"
		}),
		age,
	},
	"IngressClass.networking.k8s.io": {
		col("Name", func(o value) string { return nameOfDefault(o, "ingressclass.kubernetes.io/is-default-class") }).named(),
		text("Controller", "spec.controller"), col("Parameters", ingressParameters), age,
	},
	// kube-apiserver's rows of IPAddresses have an age too, for which there is no definition.
	"IPAddress.networking.k8s.io":     {name, col("ParentRef", parentRef)},
	"NetworkPolicy.networking.k8s.io": {name, selectorOf("Pod-Selector", "spec.podSelector"), age},
	"ServiceCIDR.networking.k8s.io":   {name, joined("CIDRs", "spec.cidrs", "", ""), age},
	"RuntimeClass.node.k8s.io":        {name, text("Handler", "handler"), age},
	"PodDisruptionBudget.policy": {
		name, optional("Min Available", "spec.minAvailable", "N/A"), optional("Max Unavailable", "spec.maxUnavailable", "N/A"),
		number("Allowed Disruptions", "status.disruptionsAllowed"), age,
	},
	"ClusterRole.rbac.authorization.k8s.io":        {name, created},
	"ClusterRoleBinding.rbac.authorization.k8s.io": bindingColumns,
	"Role.rbac.authorization.k8s.io":               {name, created},
	"RoleBinding.rbac.authorization.k8s.io":        bindingColumns,
	"DeviceTaintRule.resource.k8s.io": {
		name, text("Key", "spec.taint.key"), text("Value", "spec.taint.value"), text("Effect", "spec.taint.effect"),
		sinceOptional("TimeAdded", "spec.taint.timeAdded", ""),
		age,
	},
	"ResourceClaim.resource.k8s.io": {name, col("State", claimState), age},
	"ResourceSlice.resource.k8s.io": {name, text("Node", "spec.nodeName"), text("Driver", "spec.driver"), text("Pool", "spec.pool.name"), age},
	"PriorityClass.scheduling.k8s.io": {
		name, number("Value", "value"), boolean("Global-Default", "globalDefault"), age, text("PreemptionPolicy", "preemptionPolicy"),
	},
	"CSIDriver.storage.k8s.io": {
		name, col("AttachRequired", func(o value) bool { r := o.at("spec.attachRequired"); return r.is() || !r.exists() }),
		boolean("PodInfoOnMount", "spec.podInfoOnMount"), boolean("StorageCapacity", "spec.storageCapacity"),
		col("TokenRequests", func(o value) string {
			if r := o.at("spec.tokenRequests"); r.len() > 0 {
				return strings.Join(r.texts("audience"), ",")
			}
			return unset
		}),
		boolean("RequiresRepublish", "spec.requiresRepublish"), joined("Modes", "spec.volumeLifecycleModes", "", none), age,
	},
	"CSINode.storage.k8s.io":            {name, count("Drivers", "spec.drivers"), age},
	"CSIStorageCapacity.storage.k8s.io": {name, created},
	"StorageClass.storage.k8s.io": {
		name, // of all classes, a Table of several marks the newest default class
		text("Provisioner", "provisioner"), text("ReclaimPolicy", "reclaimPolicy", "Delete"),
		text("VolumeBindingMode", "volumeBindingMode", "Immediate"), boolean("AllowVolumeExpansion", "allowVolumeExpansion").asText(), age,
	},
	"VolumeAttachment.storage.k8s.io": {
		name, text("Attacher", "spec.attacher").named(), text("PV", "spec.source.persistentVolumeName"), text("Node", "spec.nodeName"),
		boolean("Attached", "status.attached"), age,
	},
	"VolumeAttributesClass.storage.k8s.io": {name, text("DriverName", "driverName"), age},
	"StorageVersionMigration.storagemigration.k8s.io": {
		text("Name", "metadata.name"),
		col("Resource", func(o value) string {
			return schema.GroupResource{Group: o.at("spec.resource.group").str(), Resource: o.at("spec.resource.resource").str()}.String()
		}),
		col("Status", func(o value) string { return lastCondition(o, "True", "Unknown", "Running", "Failed", "Succeeded") }),
	},
}
