package podsim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podSpec creates the spec of one pod template. It chooses both the fields and their contents at
// random.
func (w *writer) podSpec(t *template) corev1.PodSpec {
	spec := corev1.PodSpec{
		RestartPolicy:                 Pick(&w.Words, corev1.RestartPolicyAlways, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure),
		TerminationGracePeriodSeconds: new(int64(w.Between(5, 600))),
		DNSPolicy:                     Pick(&w.Words, corev1.DNSClusterFirst, corev1.DNSDefault),
		SecurityContext:               w.podSecurity(),
		SchedulerName:                 corev1.DefaultSchedulerName,
		Tolerations:                   w.tolerations(),
		EnableServiceLinks:            new(w.Chance(50)),
		PreemptionPolicy:              new(corev1.PreemptLowerPriority),
		Priority:                      new(int32(w.Rand.IntN(10_000))),
	}
	spec.ServiceAccountName = w.Name()
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	for _, name := range w.Several(1, 3, w.Name) {
		spec.Volumes = append(spec.Volumes, w.volume(name))
	}
	most := 3
	if w.Noise {
		most = 2 // noise makes the contents of containers larger, so there are fewer containers
	}
	names := w.Several(1, most, w.Name)
	for _, name := range names {
		spec.Containers = append(spec.Containers, w.container(name, t, &spec))
	}
	if w.Chance(20) {
		init := w.container("init-"+names[0], t, &spec)
		init.LivenessProbe, init.ReadinessProbe, init.StartupProbe, init.Lifecycle, init.Ports = nil, nil, nil, nil, nil
		spec.InitContainers = []corev1.Container{init}
	}
	w.addPlacement(&spec, t)
	w.addRare(&spec)
	return spec
}

func (w *writer) podSecurity() *corev1.PodSecurityContext {
	s := &corev1.PodSecurityContext{}
	if w.Chance(50) {
		s.RunAsUser = new(int64(w.Between(1000, 65_000)))
	}
	if w.Chance(40) {
		s.RunAsNonRoot = new(true)
	}
	if w.Chance(30) {
		s.FSGroup = new(int64(w.Between(1000, 65_000)))
	}
	if w.Chance(30) {
		s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return s
}

func (w *writer) tolerations() []corev1.Toleration {
	out := []corev1.Toleration{tolerate("not-ready"), tolerate("unreachable")}
	for range w.Rand.IntN(3) {
		out = append(out, corev1.Toleration{
			Key: w.Word() + ".example.com/" + w.Word(), Operator: corev1.TolerationOpEqual, Value: w.Word(),
			Effect: Pick(&w.Words, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute),
		})
	}
	return out
}

// addPlacement sets the fields that decide on which nodes the pods run.
func (w *writer) addPlacement(spec *corev1.PodSpec, t *template) {
	if w.Chance(30) {
		spec.NodeSelector = map[string]string{"example.com/" + w.Word(): w.Word()}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": t.name}}
	if w.Chance(30) {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: int32(w.Between(1, 3)), TopologyKey: corev1.LabelTopologyZone,
			WhenUnsatisfiable: Pick(&w.Words, corev1.ScheduleAnyway, corev1.DoNotSchedule), LabelSelector: selector,
		}}
	}
	if !w.Chance(40) {
		return
	}
	term := corev1.PodAffinityTerm{LabelSelector: selector, TopologyKey: corev1.LabelHostname}
	spec.Affinity = &corev1.Affinity{}
	if w.Chance(50) {
		spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: int32(w.Between(1, 100)), PodAffinityTerm: term},
			},
		}
		return
	}
	spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: "example.com/" + w.Word(), Operator: corev1.NodeSelectorOpIn, Values: w.Several(1, 4, w.Word),
		}}}},
	}}
}

// addRare sets some fields that few pods have.
func (w *writer) addRare(spec *corev1.PodSpec) {
	if w.Chance(20) {
		spec.PriorityClassName = w.Name()
	}
	if w.Chance(20) {
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: w.Name()}}
	}
	if w.Chance(10) {
		spec.HostNetwork = true
	}
	if w.Chance(15) {
		spec.DNSConfig = &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new(fmt.Sprint(w.Between(1, 5)))}}}
	}
	if w.Chance(10) {
		spec.HostAliases = []corev1.HostAlias{{IP: fmt.Sprintf("10.%d.%d.7", w.Rand.IntN(256), w.Rand.IntN(256)), Hostnames: w.Several(1, 3, w.Name)}}
	}
	if w.Chance(15) {
		spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: corev1.PodConditionType("example.com/" + w.Word())}}
	}
}

func (w *writer) volume(name string) corev1.Volume {
	v := corev1.Volume{Name: name}
	mode := new(int32(Pick(&w.Words, 0o644, 0o600, 0o400)))
	switch w.Rand.IntN(6) {
	case 0:
		v.Secret = &corev1.SecretVolumeSource{SecretName: w.Name(), DefaultMode: mode}
	case 1:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{SizeLimit: new(w.megabytes(10, 2_000))}
	case 2:
		v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: w.Name()}
	case 3:
		v.HostPath = &corev1.HostPathVolumeSource{Path: "/var/lib/" + w.Word(), Type: new(corev1.HostPathDirectoryOrCreate)}
	case 4:
		v.CSI = &corev1.CSIVolumeSource{Driver: w.Word() + ".csi.example.com", VolumeAttributes: map[string]string{w.Word(): w.Value()}}
	default:
		source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: w.Name()}, DefaultMode: mode}
		for _, key := range w.Several(0, 3, w.Name) {
			source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: w.Word()})
		}
		v.ConfigMap = source
	}
	return v
}

func (w *writer) megabytes(least, most int) resource.Quantity {
	return *resource.NewQuantity(int64(w.Between(least, most))<<20, resource.BinarySI)
}

func (w *writer) millicores(least, most int) resource.Quantity {
	return *resource.NewMilliQuantity(int64(w.Between(least, most)), resource.DecimalSI)
}
