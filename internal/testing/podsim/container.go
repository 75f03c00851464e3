package podsim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// minEnv and maxEnv limit the number of environment variables of a container.
const minEnv, maxEnv = 3, 17

// container creates one container of a pod template. It mounts some of the volumes in spec.
func (w *writer) container(name string, t *template, spec *corev1.PodSpec) corev1.Container {
	c := corev1.Container{
		Name:                     name,
		Image:                    registry + "/" + w.Name() + ":" + t.version,
		Resources:                w.resources(),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: Pick(&w.Words, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError),
		ImagePullPolicy:          Pick(&w.Words, corev1.PullIfNotPresent, corev1.PullAlways),
	}
	if w.Chance(40) {
		c.Command = []string{"/bin/" + w.Word()}
	}
	for range w.Rand.IntN(5) {
		c.Args = append(c.Args, "--"+w.Name()+"="+w.Value())
	}
	for _, port := range w.Several(0, 3, w.portName) {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: port, ContainerPort: int32(w.Between(1024, 30_000)), Protocol: corev1.ProtocolTCP})
	}
	for _, variable := range w.Several(minEnv, maxEnv, w.Variable) {
		c.Env = append(c.Env, w.env(variable))
	}
	if w.Chance(20) {
		c.EnvFrom = []corev1.EnvFromSource{{Prefix: w.Variable(), ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: w.Name()},
		}}}
	}
	for i := range spec.Volumes {
		if w.Chance(60) {
			c.VolumeMounts = append(c.VolumeMounts, w.mount(spec.Volumes[i].Name))
		}
	}
	w.addProbes(&c)
	c.SecurityContext = w.security()
	return c
}

func (w *writer) portName() string { return "p" + Hash(w.Rand, 6) }

func (w *writer) env(name string) corev1.EnvVar {
	source := &corev1.EnvVarSource{}
	switch w.Rand.IntN(12) {
	case 0:
		source.SecretKeyRef = &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: w.Name()}, Key: w.Word()}
	case 1:
		source.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: w.Name()}, Key: w.Word(), Optional: new(w.Chance(50)),
		}
	case 2:
		return fieldEnv(name, Pick(&w.Words, "metadata.name", "metadata.namespace", "status.podIP", "spec.nodeName"))
	default:
		return corev1.EnvVar{Name: name, Value: w.Value()}
	}
	return corev1.EnvVar{Name: name, ValueFrom: source}
}

func (w *writer) mount(volume string) corev1.VolumeMount {
	m := corev1.VolumeMount{Name: volume, MountPath: "/" + w.Word() + "/" + w.Word(), ReadOnly: w.Chance(50)}
	if w.Chance(20) {
		m.SubPath = w.Word()
	}
	return m
}

func (w *writer) resources() corev1.ResourceRequirements {
	var r corev1.ResourceRequirements
	if w.Chance(85) {
		r.Requests = corev1.ResourceList{corev1.ResourceCPU: w.millicores(10, 4_000), corev1.ResourceMemory: w.megabytes(16, 8_000)}
	}
	if w.Chance(65) {
		r.Limits = corev1.ResourceList{corev1.ResourceMemory: w.megabytes(16, 8_000)}
	}
	if r.Limits != nil && w.Chance(40) {
		r.Limits[corev1.ResourceEphemeralStorage] = w.megabytes(100, 8_000)
	}
	return r
}

func (w *writer) addProbes(c *corev1.Container) {
	if w.Chance(60) {
		c.LivenessProbe = w.probe()
	}
	if w.Chance(60) {
		c.ReadinessProbe = w.probe()
	}
	if w.Chance(20) {
		c.StartupProbe = w.probe()
	}
	if w.Chance(25) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", w.Text(w.Between(8, 80))}},
		}}
	}
}

func (w *writer) probe() *corev1.Probe {
	port := int32(w.Between(1024, 30_000))
	p := probe("/"+w.Word(), port, int32(w.Between(0, 90)))
	p.PeriodSeconds, p.TimeoutSeconds = int32(w.Between(1, 60)), int32(w.Between(1, 30))
	switch w.Rand.IntN(4) {
	case 0:
		p.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: append([]string{"/bin/" + w.Word()}, w.Several(0, 3, w.Word)...)}}
	case 1:
		p.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}
	case 2:
		p.ProbeHandler = corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: port, Service: new(w.Word())}}
	}
	return p
}

func (w *writer) security() *corev1.SecurityContext {
	if w.Chance(40) {
		return nil
	}
	s := &corev1.SecurityContext{}
	if w.Chance(50) {
		s.AllowPrivilegeEscalation = new(false)
	}
	if w.Chance(50) {
		s.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
	if w.Chance(40) {
		s.ReadOnlyRootFilesystem = new(true)
	}
	if w.Chance(20) {
		s.RunAsGroup = new(int64(w.Between(1000, 65_000)))
	}
	return s
}
