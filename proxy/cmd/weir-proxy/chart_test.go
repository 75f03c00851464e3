package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/weirproject/weir/internal/testing/check"
)

// certificate contains the fields that the chart's Certificate uses; decode fails for other fields.
// cert-manager has Go types, but they would need another module.
type certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretName string   `json:"secretName"`
		DNSNames   []string `json:"dnsNames"`
		PrivateKey struct {
			Algorithm      string `json:"algorithm"`
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
		IssuerRef struct {
			Name string `json:"name"`
			Kind string `json:"kind"`
		} `json:"issuerRef"`
	} `json:"spec"`
}

func (c *certificate) DeepCopyObject() runtime.Object { return new(*c) }

// chartTool builds tools/chart and returns its path.
var chartTool = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-n", "chart")
	cmd.Dir = filepath.Join(manifests, "..", "tools")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

// render renders the chart with values, by Helm's library.
func render(t *testing.T, values, release, namespace string) ([]byte, error) {
	t.Helper()
	tool, err := chartTool()
	check.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), tool, "-release", release, "-namespace", namespace, filepath.Join(manifests, "helm", "weir-proxy"))
	cmd.Stdin = strings.NewReader(values)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, &errors)
	}
	return out.Bytes(), nil
}

// described returns the objects as YAML, by kind and name, without the labels of Helm's releases.
// Instead of a proxy's arguments it has the flags that they set.
func described(t *testing.T, objects []runtime.Object) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range objects {
		m, err := meta.Accessor(o)
		check.NoError(t, err)
		if d, ok := o.(*appsv1.Deployment); ok {
			d.Spec.Template.Spec.Containers[0].Args = flagsOf(t, d)
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		check.NoError(t, err)
		dropLabels(fields)
		text, err := yaml.Marshal(fields)
		check.NoError(t, err)
		out[o.GetObjectKind().GroupVersionKind().Kind+" "+m.GetName()] = string(text)
	}
	return out
}

// flagsOf returns the flags that a proxy's arguments set. It fails the test for arguments that the
// command does not have.
func flagsOf(t *testing.T, d *appsv1.Deployment) (flags []string) {
	t.Helper()
	cmd := newCommand()
	check.NoError(t, cmd.ParseFlags(d.Spec.Template.Spec.Containers[0].Args))
	cmd.Flags().Visit(func(f *pflag.Flag) { flags = append(flags, f.Name+"="+f.Value.String()) })
	return flags
}

func dropLabels(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, label := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
			delete(v, label)
		}
		for _, value := range v {
			dropLabels(value)
		}
	case []any:
		for _, value := range v {
			dropLabels(value)
		}
	}
}

// TestChart checks that Helm's chart renders the objects of the base by default, and those of the
// base and all components if they are on. It omits the Namespace, which Helm creates.
func TestChart(t *testing.T) {
	for values, folders := range map[string][]string{
		"{}": {"base"},
		"{controlPlane: {enabled: true}, impersonation: true, monitoring: {serviceMonitor: true}}": {"base", "controlplane", "impersonation", "monitoring"},
	} {
		var want []runtime.Object
		for _, folder := range folders {
			var k kustomization
			readYAML(t, filepath.Join(manifests, folder, "kustomization.yaml"), &k)
			for _, file := range k.Resources {
				if file != "namespace.yaml" {
					want = append(want, objects(t, filepath.Join(manifests, folder, file))...)
				}
			}
			if folder == "controlplane" {
				i := slices.IndexFunc(want, func(o runtime.Object) bool { _, ok := o.(*appsv1.Deployment); return ok })
				want[i].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Args = patchedArgs(t, folder)
			}
		}
		rendered, err := render(t, values, "weir-proxy", "weir-system")
		check.NoError(t, err)
		wanted, has := described(t, want), described(t, decode(t, values, rendered))
		if names := slices.Sorted(maps.Keys(has)); !slices.Equal(names, slices.Sorted(maps.Keys(wanted))) {
			t.Errorf("%s: the chart has %q", values, names)
		}
		for name, text := range wanted {
			if has[name] != text {
				t.Errorf("%s: the chart has\n%s\nand kustomize\n%s", values, has[name], text)
			}
		}
	}
}

// TestChartValues renders the chart with all values, as a release of another name in another
// namespace. The objects must name each other, and the proxy must have the permissions and the
// certificate that it needs.
func TestChartValues(t *testing.T) {
	rendered, err := render(t, `
image: {repository: registry.example.com/weir-proxy, tag: v1, digest: "sha256:`+strings.Repeat("0", 64)+`", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
replicas: 3
cachedResources: [pods, widgets.v1beta1.example.com, gadgets.example.com, nodes.v1]
onDemandResources: [configmaps]
readableResources: [customresourcedefinitions.apiextensions.k8s.io]
memory: {request: 1Gi, limit: 2Gi, goLimit: 1800MiB, watches: 1Gi, responses: 200Mi, onDemand: 256Mi}
cpu: {request: "1"}
tls: {issuer: {name: ca, kind: ClusterIssuer}}
monitoring: {serviceMonitor: true}
priorityClassName: system-cluster-critical
flowSchema: false
networkPolicy: false
extraArgs: ["--consistency=cached"]
podAnnotations: {a: b}
nodeSelector: {disk: ssd}
tolerations: [{operator: Exists}]
affinity: {nodeAffinity: {}}
`, "edge", "12")
	check.NoError(t, err)
	all := decode(t, "the chart", rendered)
	var names []string
	for _, o := range all {
		m, err := meta.Accessor(o)
		check.NoError(t, err)
		kind := o.GetObjectKind().GroupVersionKind().Kind
		names = append(names, strings.Join([]string{kind, m.GetNamespace(), m.GetName()}, "/"))
	}
	slices.Sort(names)
	check.Equal(t, strings.Join(names, " "), "Certificate/12/edge-weir-proxy ClusterRole//edge-weir-proxy ClusterRoleBinding//edge-weir-proxy "+
		"ClusterRoleBinding//edge-weir-proxy-auth-delegator Deployment/12/edge-weir-proxy PodDisruptionBudget/12/edge-weir-proxy "+
		"RoleBinding/kube-system/edge-weir-proxy-authentication-reader Service/12/edge-weir-proxy ServiceAccount/12/edge-weir-proxy ServiceMonitor/12/edge-weir-proxy")

	d := one[*appsv1.Deployment](t, all)
	pod := d.Spec.Template.Spec
	check.Equal(t, pod.Containers[0].Image, "registry.example.com/weir-proxy:v1@sha256:"+strings.Repeat("0", 64))
	flags := flagsOf(t, d)
	for _, want := range []string{"resources=[pods,widgets.v1beta1.example.com,gadgets.example.com,nodes.v1]", "memory-budget=256Mi", "consistency=cached"} {
		if !slices.Contains(flags, want) {
			t.Errorf("the flags are %q, want %s", flags, want)
		}
	}
	if len(pod.ImagePullSecrets)*len(pod.NodeSelector)*len(pod.Tolerations)*len(d.Spec.Template.Annotations) != 1 || pod.Affinity == nil || pod.PriorityClassName != "system-cluster-critical" {
		t.Errorf("the pods are %+v", pod)
	}
	var rules []string
	for _, rule := range one[*rbacv1.ClusterRole](t, all).Rules {
		rules = append(rules, fmt.Sprint(rule.APIGroups, rule.Resources, rule.Verbs))
	}
	check.Equal(t, strings.Join(rules, " "), "[] [pods nodes configmaps] [list watch] [example.com] [widgets gadgets] [list watch] "+
		"[apiextensions.k8s.io] [customresourcedefinitions] [get] [apiregistration.k8s.io] [apiservices] [get]")
	for _, o := range all {
		if binding, ok := o.(*rbacv1.ClusterRoleBinding); ok {
			if s := binding.Subjects[0]; s.Name != pod.ServiceAccountName || s.Namespace != "12" {
				t.Errorf("%s is for %+v", binding.Name, s)
			}
		}
	}
	cert, monitor, service := one[*certificate](t, all), one[*serviceMonitor](t, all), one[*corev1.Service](t, all)
	secret := pod.Volumes[0].Secret.SecretName
	at := monitor.Spec.Endpoints[0].TLSConfig
	if cert.Spec.SecretName != secret || at.CA.Secret.Name != secret || at.ServerName != cert.Spec.DNSNames[0] || at.ServerName != service.Name+".12.svc" {
		t.Errorf("the certificate is %+v, the monitor trusts %+v, and the pods read %s", cert.Spec, at, secret)
	}
	if !maps.Equal(service.Spec.Selector, d.Spec.Template.Labels) || !maps.Equal(service.Spec.Selector, d.Spec.Selector.MatchLabels) {
		t.Errorf("the Service selects %v, and the pods have %v", service.Spec.Selector, d.Spec.Template.Labels)
	}
}

// one returns the first object of a type.
func one[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	for _, o := range objects {
		if o, ok := o.(T); ok {
			return o
		}
	}
	t.Fatalf("none of %T", *new(T))
	panic("unreachable")
}

// TestChartRefuses checks that the chart's schema rejects unknown and invalid values.
func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"replica: 3":                      "'replica' not allowed",
		"memory: {budget: 1Gi}":           "'budget' not allowed",
		"memory: {limit: 2000000000}":     "got number, want string",
		"memory: {goLimit: 1Gi}":          "/memory/goLimit",
		"cachedResources: []":             "minItems",
		"cachedResources: ['Pods']":       "does not match pattern",
		"tls: {issuer: {issuer: ca}}":     "'issuer' not allowed",
		"controlPlane: true":              "/controlPlane",
		"extraArgs: [consistency=cached]": "/extraArgs/0",
	} {
		if _, err := render(t, values, "weir-proxy", "weir-system"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}
