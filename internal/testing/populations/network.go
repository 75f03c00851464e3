package populations

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weirproject/weir/internal/testing/podsim"
)

func (m *mixed) service(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	ip := fmt.Sprintf("10.96.%d.%d", i>>8&255, i&255)
	o := &corev1.Service{
		ObjectMeta: meta(w, namespace, app, app, "spec"),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": app}, ClusterIP: ip, ClusterIPs: []string{ip},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, SessionAffinity: corev1.ServiceAffinityNone,
		},
	}
	for _, name := range w.Several(1, 4, w.Word) {
		port := int32(w.Between(80, 9_999))
		o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port)})
	}
	return o
}

func (m *mixed) endpointSlice(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	o := &discoveryv1.EndpointSlice{
		ObjectMeta:  meta(w, namespace, app+"-"+podsim.Hash(w.Rand, 5), app, "endpoints", "ports"),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(w.Word()), Port: new(int32(w.Between(80, 9_999))), Protocol: new(corev1.ProtocolTCP)}},
	}
	o.OwnerReferences = []metav1.OwnerReference{owner(w, "v1", "Service", app)}
	for range w.Between(1, 40) {
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("100.64.%d.%d", w.Rand.IntN(256), w.Rand.IntN(256))},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new(podsim.Pick(w, m.nodes...)),
			TargetRef: &corev1.ObjectReference{
				Kind: "Pod", Namespace: namespace, Name: app + "-" + podsim.Hash(w.Rand, 10) + "-" + podsim.Hash(w.Rand, 5), UID: podsim.UID(w.Rand),
			},
			Zone: new(podsim.Pick(w, "zone-a", "zone-b", "zone-c")),
		})
	}
	return o
}

func (m *mixed) ingress(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	o := &networkingv1.Ingress{ObjectMeta: meta(w, namespace, app, app, "spec"), Spec: networkingv1.IngressSpec{IngressClassName: new("public")}}
	for _, host := range w.Several(1, 4, w.Name) {
		host += ".example.com"
		rule := networkingv1.HTTPIngressRuleValue{}
		for _, path := range w.Several(1, 5, w.Word) {
			rule.Paths = append(rule.Paths, networkingv1.HTTPIngressPath{
				Path: "/" + path, PathType: new(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
					Name: app, Port: networkingv1.ServiceBackendPort{Number: int32(w.Between(80, 9_999))},
				}},
			})
		}
		o.Spec.Rules = append(o.Spec.Rules, networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &rule}})
		o.Spec.TLS = append(o.Spec.TLS, networkingv1.IngressTLS{Hosts: []string{host}, SecretName: w.Name()})
	}
	return o
}

func (m *mixed) networkPolicy(w *podsim.Words, i int) Object {
	o := &networkingv1.NetworkPolicy{
		ObjectMeta: meta(w, m.namespace(i), fmt.Sprintf("%s-%d", w.Name(), i), w.Word(), "spec"),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *selector(podsim.Pick(w, m.apps...)),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
	for range w.Between(1, 4) {
		o.Spec.Ingress = append(o.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
			Ports: []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(int32(w.Between(80, 9_999))))}},
			From:  []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": w.Word()}}}},
		})
	}
	return o
}

func (m *mixed) event(w *podsim.Words, i int) Object {
	app, namespace := m.app(i)
	pod := app + "-" + podsim.Hash(w.Rand, 10) + "-" + podsim.Hash(w.Rand, 5)
	first, last := moment(w), moment(w)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s.%016x", pod, w.Rand.Uint64()), Namespace: namespace, UID: podsim.UID(w.Rand), CreationTimestamp: first,
		},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod, UID: podsim.UID(w.Rand), APIVersion: "v1"},
		Reason:         podsim.Pick(w, "Scheduled", "Pulled", "Created", "Started", "Unhealthy", "BackOff", "Killing", "FailedScheduling"),
		Message:        w.Text(w.Between(30, 250)),
		Type:           podsim.Pick(w, corev1.EventTypeNormal, corev1.EventTypeWarning),
		FirstTimestamp: first, LastTimestamp: last, Count: int32(w.Between(1, 200)),
		Source:              corev1.EventSource{Component: "kubelet", Host: podsim.Pick(w, m.nodes...)},
		ReportingController: "kubelet",
	}
}
