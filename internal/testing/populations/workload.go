package populations

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weirproject/weir/internal/testing/podsim"
)

func (m *mixed) deployment(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	n := int32(w.Between(1, 20))
	at := moment(w)
	return &appsv1.Deployment{
		ObjectMeta: meta(w, namespace, app, app, "spec", "status"),
		Spec: appsv1.DeploymentSpec{
			Replicas: &n, Selector: selector(app), Template: m.template(i), RevisionHistoryLimit: new(int32(w.Between(2, 10))),
			Strategy: appsv1.DeploymentStrategy{Type: podsim.Pick(w, appsv1.RollingUpdateDeploymentStrategyType, appsv1.RecreateDeploymentStrategyType)},
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: int64(w.Between(1, 40)), Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, LastUpdateTime: at, LastTransitionTime: at, Reason: "MinimumReplicasAvailable"},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, LastUpdateTime: at, LastTransitionTime: at, Reason: "NewReplicaSetAvailable"},
			},
		},
	}
}

// replicaSet creates the current ReplicaSet of app i. If i is not below the number of apps, it
// creates a previous ReplicaSet without replicas. Each app has two previous ReplicaSets.
func (m *mixed) replicaSet(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	o := &appsv1.ReplicaSet{
		ObjectMeta: meta(w, namespace, fmt.Sprintf("%s-%s", app, podsim.Hash(w.Rand, 10)), app, "spec", "status"),
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(0)), Selector: selector(app), Template: m.template(i)},
		Status:     appsv1.ReplicaSetStatus{ObservedGeneration: 2},
	}
	o.OwnerReferences = []metav1.OwnerReference{owner(w, "apps/v1", "Deployment", app)}
	if i < len(m.apps) {
		n := int32(w.Between(1, 20))
		o.Spec.Replicas, o.Status.Replicas, o.Status.ReadyReplicas, o.Status.AvailableReplicas = &n, n, n, n
	}
	return o
}

func owner(w *podsim.Words, apiVersion, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: name, UID: podsim.UID(w.Rand), Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

func (m *mixed) statefulSet(w *podsim.Words, i int) Object {
	app, namespace := m.app(i * 7)
	n := int32(w.Between(1, 9))
	revision := podsim.Hash(w.Rand, 10)
	return &appsv1.StatefulSet{
		ObjectMeta: meta(w, namespace, fmt.Sprintf("%s-%d", w.Name(), i), app, "spec", "status"),
		Spec: appsv1.StatefulSetSpec{
			Replicas: &n, Selector: selector(app), Template: m.template(i * 7), ServiceName: app,
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimSpec(w)}},
		},
		Status: appsv1.StatefulSetStatus{Replicas: n, ReadyReplicas: n, CurrentRevision: revision, UpdateRevision: revision},
	}
}

func (m *mixed) daemonSet(w *podsim.Words, i int) Object {
	name := fmt.Sprintf("%s-%d", w.Name(), i)
	n := int32(len(m.nodes))
	return &appsv1.DaemonSet{
		ObjectMeta: meta(w, "kube-system", name, name, "spec", "status"),
		Spec:       appsv1.DaemonSetSpec{Selector: selector(name), Template: m.template(i * 11)},
		Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: n, CurrentNumberScheduled: n, NumberReady: n, NumberAvailable: n},
	}
}

func (m *mixed) controllerRevision(w *podsim.Words, i int) Object {
	app, namespace := m.app(i * 3)
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": m.template(i * 3)}})
	if err != nil {
		panic(fmt.Sprintf("populations: a pod template did not marshal: %v", err))
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: meta(w, namespace, fmt.Sprintf("%s-%s-%d", w.Name(), podsim.Hash(w.Rand, 10), i), app, "data"),
		Data:       runtime.RawExtension{Raw: raw}, Revision: int64(w.Between(1, 30)),
	}
}

func (m *mixed) job(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	at, end := moment(w), moment(w)
	if end.Before(&at) {
		at, end = end, at
	}
	return &batchv1.Job{
		ObjectMeta: meta(w, namespace, fmt.Sprintf("%s-%d", w.Name(), 29_000_000+i), app, "spec", "status"),
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(1)), Completions: new(int32(1)), BackoffLimit: new(int32(w.Between(0, 6))), Template: m.template(i),
		},
		Status: batchv1.JobStatus{
			StartTime: &at, CompletionTime: &end, Succeeded: 1,
			Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastProbeTime: end, LastTransitionTime: end}},
		},
	}
}

func (m *mixed) cronJob(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	at := moment(w)
	return &batchv1.CronJob{
		ObjectMeta: meta(w, namespace, fmt.Sprintf("%s-%d", w.Name(), i), app, "spec", "status"),
		Spec: batchv1.CronJobSpec{
			Schedule: fmt.Sprintf("%d %d * * *", w.Between(0, 59), w.Between(0, 23)), ConcurrencyPolicy: batchv1.ForbidConcurrent,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: m.template(i)}},
		},
		Status: batchv1.CronJobStatus{LastScheduleTime: &at, LastSuccessfulTime: &at},
	}
}

func (m *mixed) autoscaler(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	n := int32(w.Between(1, 20))
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: meta(w, namespace, app, app, "spec", "status"),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app},
			MinReplicas:    new(int32(1)), MaxReplicas: n + 20,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(w.Between(40, 90)))},
			}}},
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: n, DesiredReplicas: n, LastScaleTime: new(moment(w))},
	}
}

func (m *mixed) disruptionBudget(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	n := int32(w.Between(1, 20))
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: meta(w, namespace, app, app, "spec", "status"),
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: selector(app)},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, CurrentHealthy: n, DesiredHealthy: n - 1, ExpectedPods: n},
	}
}
