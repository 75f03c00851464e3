package populations

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// One ConfigMap of each largeEvery ConfigMaps is large, like a dashboard. One Secret of each
// largeEvery Secrets is large, like a Helm release.
const largeEvery = 20

func (m *mixed) configMap(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	o := &corev1.ConfigMap{ObjectMeta: meta(w, namespace, fmt.Sprintf("%s-%s-%d", app, w.Word(), i), app, "data"), Data: map[string]string{}}
	least, most := 100, 3_000
	if i%largeEvery == 0 {
		least, most = 20_000, 60_000
	}
	for _, key := range w.Several(1, 5, w.Word) {
		o.Data[key+podsim.Pick(w, ".yaml", ".json", ".conf", "")] = w.Text(w.Between(least, most) / 3)
	}
	return o
}

// secret creates a Secret. Its values are random bytes, because real keys and compressed releases
// do not compress either.
func (m *mixed) secret(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	o := &corev1.Secret{
		ObjectMeta: meta(w, namespace, fmt.Sprintf("%s-%s-%d", app, w.Word(), i), app, "data", "type"),
		Type:       podsim.Pick(w, corev1.SecretTypeOpaque, corev1.SecretTypeTLS, corev1.SecretTypeDockerConfigJson),
		Data:       map[string][]byte{},
	}
	least, most := 32, 2_500
	if i%largeEvery == 0 {
		o.Type, least, most = "example.com/release", 10_000, 50_000
	}
	for _, key := range w.Several(1, 4, w.Word) {
		o.Data[key] = noise(w, w.Between(least, most))
	}
	return o
}

func noise(w *podsim.Words, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(w.Rand.Uint32())
	}
	return b
}

func (m *mixed) serviceAccount(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	o := &corev1.ServiceAccount{ObjectMeta: meta(w, namespace, app, app)}
	if w.Chance(30) {
		o.ImagePullSecrets = []corev1.LocalObjectReference{{Name: w.Name()}}
	}
	return o
}

func (m *mixed) quota(w *podsim.Words, i int) Object {
	hard := amounts(w, 200, 64_000)
	hard[corev1.ResourcePods] = count(w.Between(50, 2_000))
	used := amounts(w, 100, 32_000)
	used[corev1.ResourcePods] = count(w.Between(1, 50))
	return &corev1.ResourceQuota{
		ObjectMeta: meta(w, m.namespace(i), "quota", w.Word(), "spec", "status"),
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		Status:     corev1.ResourceQuotaStatus{Hard: hard.DeepCopy(), Used: used},
	}
}

func (m *mixed) limitRange(w *podsim.Words, i int) Object {
	return &corev1.LimitRange{
		ObjectMeta: meta(w, m.namespace(i), "limits", w.Word(), "spec"),
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: amounts(w, 1, 4_000), DefaultRequest: amounts(w, 1, 500),
		}}},
	}
}

// amounts returns a random amount of CPU, in millicores, and a random amount of memory, in MiB.
// Both are from least to most.
func amounts(w *podsim.Words, least, most int) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(w.Between(least, most)), resource.DecimalSI),
		corev1.ResourceMemory: megabytes(w, least, most),
	}
}

func megabytes(w *podsim.Words, least, most int) resource.Quantity {
	return *resource.NewQuantity(int64(w.Between(least, most))<<20, resource.BinarySI)
}

func count(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
