package podsim

import (
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// nodeStride is the distance between the node numbers of successive pods. It is a prime, so that
// the numbers of pods of two nodes differ by at most one.
const nodeStride = 1_000_003

func (p *Pods) podWithoutFields(i int) *corev1.Pod {
	a := p.app(i / replicasPerApp)
	rnd := p.random(podStream, i)
	node := i * nodeStride % p.nodes
	created := a.created.Add(time.Duration(rnd.IntN(3600)) * time.Second)
	token := "kube-api-access-" + Hash(rnd, 5)

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              a.name + "-" + a.hash + "-" + a.podSuffix(i%replicasPerApp),
			GenerateName:      a.name + "-" + a.hash + "-",
			Namespace:         a.namespace,
			UID:               UID(rnd),
			Generation:        1,
			CreationTimestamp: seconds(created),
			Labels: map[string]string{
				"app":               a.name,
				"pod-template-hash": a.hash,
				"team":              a.team,
				"track":             "stable",
				"version":           a.version,
			},
			Annotations: map[string]string{
				"checksum/config":      a.configSum,
				"prometheus.io/port":   "9090",
				"prometheus.io/scrape": "true",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion:         "apps/v1",
				Kind:               "ReplicaSet",
				Name:               a.name + "-" + a.hash,
				UID:                a.ownerUID,
				Controller:         new(true),
				BlockOwnerDeletion: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			Volumes:                       volumes(&a, token),
			Containers:                    []corev1.Container{appContainer(&a, token), proxyContainer(&a, token)},
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: new(int64(30)),
			DNSPolicy:                     corev1.DNSClusterFirst,
			ServiceAccountName:            a.name,
			DeprecatedServiceAccount:      a.name,
			NodeName:                      nodeName(node),
			SecurityContext:               &corev1.PodSecurityContext{},
			SchedulerName:                 corev1.DefaultSchedulerName,
			Tolerations:                   []corev1.Toleration{tolerate("not-ready"), tolerate("unreachable")},
			Priority:                      new(int32(0)),
			EnableServiceLinks:            new(true),
			PreemptionPolicy:              new(corev1.PreemptLowerPriority),
		},
	}
	pod.Status = runningStatus(pod, []string{a.imageID, sidecarID}, rnd, nodeIP(node), podIP(i))
	return pod
}

// podIP returns the IP address of pod i in 100.64.0.0/10. Addresses are unique for i < 1<<22.
func podIP(i int) [4]byte { return [4]byte{100, byte(64 + i>>16&63), byte(i >> 8), byte(i)} }

func tolerate(condition string) corev1.Toleration {
	return corev1.Toleration{
		Key:               "node.kubernetes.io/" + condition,
		Operator:          corev1.TolerationOpExists,
		Effect:            corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64(300)),
	}
}

func volumes(a *app, token string) []corev1.Volume {
	return []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: a.name + "-config"},
			DefaultMode:          new(int32(0o644)),
		}}},
		{Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: new(int32(0o644)),
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
					Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
					Path:     "namespace",
					FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
				}}}},
			},
		}}},
	}
}

func appContainer(a *app, token string) corev1.Container {
	return container("app", a.image, "http", 8080, token, requirements("250m", "256Mi", "1", "512Mi"), []corev1.EnvVar{
		fieldEnv("POD_NAME", "metadata.name"),
		{Name: "PORT", Value: "8080"},
		{Name: "LOG_LEVEL", Value: "info"},
		{Name: "DATABASE_URL", Value: "postgres://db." + a.namespace + ".svc:5432/main"},
		{Name: "GOMEMLIMIT", Value: "460MiB"},
	})
}

func proxyContainer(a *app, token string) corev1.Container {
	return container("proxy", sidecar, "metrics", 9090, token, requirements("50m", "64Mi", "200m", "128Mi"), []corev1.EnvVar{
		fieldEnv("POD_NAMESPACE", "metadata.namespace"),
		{Name: "PORT", Value: "9090"},
		{Name: "SERVICE", Value: a.name},
		{Name: "UPSTREAM", Value: "127.0.0.1:8080"},
		{Name: "MESH_ID", Value: "mesh-1"},
	})
}

func container(name, image, portName string, port int32, token string, resources corev1.ResourceRequirements, env []corev1.EnvVar) corev1.Container {
	return corev1.Container{
		Name:                     name,
		Image:                    image,
		Ports:                    []corev1.ContainerPort{{Name: portName, ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		Env:                      env,
		Resources:                resources,
		VolumeMounts:             mounts(token),
		LivenessProbe:            probe("/healthz", port, 15),
		ReadinessProbe:           probe("/readyz", port, 5),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy:          corev1.PullIfNotPresent,
	}
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}
}

func mounts(token string) []corev1.VolumeMount {
	return []corev1.VolumeMount{
		{Name: "config", MountPath: "/etc/config", ReadOnly: true},
		{Name: token, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
	}
}

func probe(path string, port int32, delay int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP,
		}},
		InitialDelaySeconds: delay,
		TimeoutSeconds:      1,
		PeriodSeconds:       10,
		SuccessThreshold:    1,
		FailureThreshold:    3,
	}
}

func requirements(cpu, memory, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		},
		Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpuLimit), corev1.ResourceMemory: resource.MustParse(memoryLimit),
		},
	}
}

func randomContainerID(rnd *rand.Rand) string { return "containerd://" + Hex(rnd, 64) }
