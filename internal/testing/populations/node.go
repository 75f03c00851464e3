package populations

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/podsim"
)

func (m *mixed) node(w *podsim.Words, i int) Object {
	name := m.nodes[i]
	capacity := amounts(w, 4_000, 128_000)
	capacity[corev1.ResourcePods] = count(110)
	o := &corev1.Node{
		ObjectMeta: meta(w, "", name, "node", "spec", "status"),
		Spec:       corev1.NodeSpec{PodCIDR: fmt.Sprintf("100.%d.%d.0/24", 64+i>>8&63, i&255), ProviderID: "example://" + podsim.Hex(w.Rand, 16)},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity.DeepCopy(),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: podsim.Hex(w.Rand, 32), SystemUUID: string(podsim.UID(w.Rand)), BootID: string(podsim.UID(w.Rand)),
				KernelVersion: "6.12.8", OSImage: "Example Linux", ContainerRuntimeVersion: "containerd://2.1.0",
				KubeletVersion: "v1.37.1", OperatingSystem: "linux", Architecture: podsim.Pick(w, "amd64", "arm64"),
			},
		},
	}
	o.Labels[corev1.LabelHostname], o.Labels[corev1.LabelTopologyZone] = name, podsim.Pick(w, "zone-a", "zone-b", "zone-c")
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		c := corev1.NodeCondition{
			Type: t, Status: corev1.ConditionFalse, Reason: "Kubelet" + string(t), Message: w.Text(40),
			LastHeartbeatTime: moment(w), LastTransitionTime: moment(w),
		}
		if t == corev1.NodeReady {
			c.Status = corev1.ConditionTrue
		}
		o.Status.Conditions = append(o.Status.Conditions, c)
	}
	for range w.Between(10, 50) {
		image := "registry.example.com/" + w.Name()
		o.Status.Images = append(o.Status.Images, corev1.ContainerImage{
			Names: []string{image + "@sha256:" + podsim.Hex(w.Rand, 64), image + ":" + w.Word()}, SizeBytes: w.Rand.Int64N(2 << 30),
		})
	}
	return o
}

// If i is below the number of nodes, lease creates the heartbeat of node i. For other i, it creates
// the lock of a leader election.
func (m *mixed) lease(w *podsim.Words, i int) Object {
	o := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: podsim.UID(w.Rand), CreationTimestamp: moment(w)}}
	renewed := metav1.NewMicroTime(moment(w).Time)
	o.Spec = coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(40)), RenewTime: &renewed}
	if i < len(m.nodes) {
		o.Name, o.Namespace, o.Spec.HolderIdentity = m.nodes[i], "kube-node-lease", new(m.nodes[i])
		o.OwnerReferences = []metav1.OwnerReference{owner(w, "v1", "Node", o.Name)}
		return o
	}
	o.Name, o.Namespace = w.Name()+"-leader", m.namespace(i-len(m.nodes))
	o.Spec.HolderIdentity, o.Spec.LeaseTransitions = new(w.Name()+"_"+string(podsim.UID(w.Rand))), new(int32(w.Between(0, 90)))
	o.Spec.AcquireTime = new(metav1.NewMicroTime(moment(w).Time))
	return o
}

func claimSpec(w *podsim.Words) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: megabytes(w, 1_000, 500_000)}},
		StorageClassName: new(podsim.Pick(w, "fast", "standard")), VolumeMode: new(corev1.PersistentVolumeFilesystem),
	}
}

func volumeName(i int) string { return fmt.Sprintf("pvc-%012d", i) }

func (m *mixed) claim(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	o := &corev1.PersistentVolumeClaim{ObjectMeta: meta(w, namespace, "data-"+app, app, "spec", "status"), Spec: claimSpec(w)}
	o.Spec.VolumeName = volumeName(i)
	o.Status = corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, AccessModes: o.Spec.AccessModes, Capacity: o.Spec.Resources.Requests.DeepCopy(),
	}
	return o
}

func (m *mixed) volume(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	return &corev1.PersistentVolume{
		ObjectMeta: meta(w, "", volumeName(i), app, "spec", "status"),
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: megabytes(w, 1_000, 500_000)},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "disk.csi.example.com", VolumeHandle: "vol-" + podsim.Hex(w.Rand, 17), VolumeAttributes: map[string]string{w.Word(): w.Value()},
			}},
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: "data-" + app, UID: podsim.UID(w.Rand)},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: "standard",
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func (m *mixed) attachment(w *podsim.Words, i int) Object {
	return &storagev1.VolumeAttachment{
		ObjectMeta: meta(w, "", "csi-"+podsim.Hex(w.Rand, 64), "attachment", "spec", "status"),
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "disk.csi.example.com", NodeName: podsim.Pick(w, m.nodes...),
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(volumeName(i))},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"devicePath": "/dev/" + w.Word()}},
	}
}
