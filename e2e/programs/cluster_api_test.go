package programs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

const fleetNamespace = "fleet"

// provision tests Cluster API's core controllers. They must create the MachineSets, the Machines
// and the machines' infrastructure objects of MachineDeployments, replace deleted Machines, and
// update the status of all objects, also after a restart of the API server. The cluster has many
// Machines that the controllers only cache. provision returns a line about each object.
func provision(t *testing.T, ctx context.Context, binary string) (usage, []string) {
	w := newWorld(t, ctx, podsim.New(0, 1))
	f := fleet{w, t}
	w.installDefinitions(t, ctx, "cluster-api", "sigs.k8s.io/cluster-api", "core/config/crd/bases/*.yaml")
	for _, kind := range []string{"FakeCluster", "FakeMachine", "FakeMachineTemplate"} {
		f.defineInfrastructure(ctx, kind)
	}
	f.fill(ctx)
	certificates := t.TempDir()
	writeServingCertificate(t, certificates)
	webhooks, err := cluster.FreeAddress()
	check.NoError(t, err)
	s, err := start(binary, w.kubeconfig, "--webhook-cert-dir="+certificates, "--webhook-port="+webhooks[strings.LastIndex(webhooks, ":")+1:],
		"--health-addr=0", "--diagnostics-address=0", "--kube-api-qps=1000", "--kube-api-burst=2000")
	check.NoError(t, err)
	t.Cleanup(func() { // runs before the cluster is stopped
		if s.end(); t.Failed() {
			t.Log(s.log)
		}
	})
	ctx, cancel := context.WithTimeout(s.alive(ctx), deadline)
	defer cancel()
	f.await(ctx, 3)
	f.patch(ctx, machineDeployments, "web", `{"spec":{"replicas":5,"template":{"metadata":{"annotations":{"note":"changed"}}}}}`)
	f.await(ctx, 5)
	f.deleteMachine(ctx)
	f.await(ctx, 5)
	w.restartAPIServer(t, ctx)
	f.patch(ctx, machineDeployments, "web", `{"spec":{"replicas":2}}`)
	f.deploy(ctx, "db", 4)
	end := f.await(ctx, 6)
	return s.end(), end
}

// fleet creates and changes the objects of Cluster API's controllers.
type fleet struct {
	*world
	t *testing.T
}

const infrastructureGroup = "infrastructure.cluster.x-k8s.io"

func fleetResource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: name}
}

func infrastructureResource(kind string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: infrastructureGroup, Version: "v1beta2", Resource: strings.ToLower(kind) + "s"}
}

var (
	clusters           = fleetResource("clusters")
	machines           = fleetResource("machines")
	machineSets        = fleetResource("machinesets")
	machineDeployments = fleetResource("machinedeployments")
	fakeMachines       = infrastructureResource("FakeMachine")
)

// defineInfrastructure defines a kind of an infrastructure provider. The label states the version
// of Cluster API's contract that the kind follows.
func (f fleet) defineInfrastructure(ctx context.Context, kind string) {
	plural := infrastructureResource(kind).Resource
	f.define(f.t, ctx, fmt.Sprintf(`
		{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.%[2]s, labels: {cluster.x-k8s.io/v1beta2: v1beta2}}, spec: {
		  group: %[2]s, scope: Namespaced, names: {plural: %[1]s, singular: %[3]s, kind: %[4]s, listKind: %[4]sList},
		  versions: [{name: v1beta2, served: true, storage: true, subresources: {status: {}},
		    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`, plural, infrastructureGroup, strings.ToLower(kind), kind))
}

func (f fleet) create(ctx context.Context, resource schema.GroupVersionResource, text string) {
	f.t.Helper()
	createYAML(f.t, ctx, f.objects.Resource(resource).Namespace(fleetNamespace), text)
}

func (f fleet) patch(ctx context.Context, resource schema.GroupVersionResource, name, patch string, subresource ...string) {
	f.t.Helper()
	_, err := f.objects.Resource(resource).Namespace(fleetNamespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	check.NoError(f.t, err)
}

// fill creates a provisioned Cluster with a MachineDeployment, and a paused Cluster with many
// Machines.
func (f fleet) fill(ctx context.Context) {
	_, err := f.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetNamespace}}, metav1.CreateOptions{})
	check.NoError(f.t, err)
	for name, paused := range map[string]bool{"main": false, "idle": true} {
		f.create(ctx, infrastructureResource("FakeCluster"), `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: FakeCluster, metadata: {name: `+name+`}}`)
		f.patch(ctx, infrastructureResource("FakeCluster"), name, `{"status":{"initialization":{"provisioned":true}}}`, "status")
		f.create(ctx, clusters, fmt.Sprintf(`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: %[1]s}, spec: {paused: %[2]t,
			controlPlaneEndpoint: {host: 192.0.2.1, port: 6443},
			infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: FakeCluster, name: %[1]s}}}`, name, paused))
	}
	f.create(ctx, infrastructureResource("FakeMachineTemplate"), `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: FakeMachineTemplate,
		metadata: {name: small}, spec: {template: {metadata: {labels: {size: small}}, spec: {cpus: 2, memory: 4Gi}}}}`)
	inParallel(f.t, ctx, *podsFlag/20, func(ctx context.Context, i int) error {
		machine := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
			"metadata": map[string]any{
				"name": fmt.Sprintf("idle-%d", i), "labels": map[string]any{"cluster.x-k8s.io/cluster-name": "idle"},
				"annotations": map[string]any{"history": strings.Repeat(fmt.Sprintf("event %d of this machine; ", i), 40)},
			},
			"spec": map[string]any{
				"clusterName": "idle", "bootstrap": map[string]any{"dataSecretName": "boot"}, "version": "v1.37.0",
				"infrastructureRef": map[string]any{"apiGroup": infrastructureGroup, "kind": "FakeMachine", "name": fmt.Sprintf("idle-%d", i)},
			},
		}}
		_, err := f.objects.Resource(machines).Namespace(fleetNamespace).Create(ctx, machine, metav1.CreateOptions{})
		return err
	})
	f.deploy(ctx, "web", 3)
}

// deploy creates a MachineDeployment.
func (f fleet) deploy(ctx context.Context, name string, replicas int) {
	f.create(ctx, machineDeployments, fmt.Sprintf(`{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment,
		metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: main}}, spec: {clusterName: main, replicas: %[2]d,
		  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}},
		  selector: {matchLabels: {cluster.x-k8s.io/cluster-name: main, cluster.x-k8s.io/deployment-name: %[1]s}},
		  template: {metadata: {labels: {cluster.x-k8s.io/cluster-name: main, cluster.x-k8s.io/deployment-name: %[1]s, tier: %[1]s}},
		    spec: {clusterName: main, version: v1.37.0, bootstrap: {dataSecretName: boot},
		      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: FakeMachineTemplate, name: small}}}}}`, name, replicas))
}

// deleteMachine deletes a Machine of the main Cluster.
func (f fleet) deleteMachine(ctx context.Context) {
	in := f.objects.Resource(machines).Namespace(fleetNamespace)
	list, err := in.List(ctx, metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/cluster-name=main"})
	check.NoError(f.t, err)
	check.NoError(f.t, in.Delete(ctx, list.Items[0].GetName(), metav1.DeleteOptions{}))
	f.t.Logf("deleted %s", list.Items[0].GetName())
}

// await waits until the main Cluster has count provisioned Machines, and until its objects have not
// changed for three seconds. Meanwhile it acts as the infrastructure provider: it marks the
// machines as provisioned. It returns a sorted list of lines about the objects.
func (f fleet) await(ctx context.Context, count int) (lines []string) {
	f.t.Helper()
	var since time.Time
	testenv.EventuallyNoError(f.t, ctx, fmt.Sprint(count, " machines are provisioned"), func() error {
		f.provisionMachines(ctx)
		var all []string
		provisioned := 0
		for _, resource := range []schema.GroupVersionResource{machineDeployments, machineSets, machines, fakeMachines} {
			list, err := f.objects.Resource(resource).Namespace(fleetNamespace).List(ctx, metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/cluster-name=main"})
			if err != nil {
				return err
			}
			for i := range list.Items {
				l := fleetLine(&list.Items[i])
				if strings.HasPrefix(l, "Machine ") && strings.Contains(l, "phase Provisioned") {
					provisioned++
				}
				all = append(all, l)
			}
		}
		if slices.Sort(all); !slices.Equal(all, lines) {
			lines, since = all, time.Now()
		}
		if stable := time.Since(since); provisioned != count || stable < 3*time.Second {
			return fmt.Errorf("%d machines are provisioned, unchanged for %v:\n%s", provisioned, stable, strings.Join(lines, "\n"))
		}
		return nil
	})
	return lines
}

// provisionMachines sets the status of all FakeMachines that have none.
func (f fleet) provisionMachines(ctx context.Context) {
	list, err := f.objects.Resource(fakeMachines).Namespace(fleetNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return // repeated by the caller
	}
	for _, m := range list.Items {
		if _, provisioned, _ := unstructured.NestedFieldNoCopy(m.Object, "status"); !provisioned {
			f.patch(ctx, fakeMachines, m.GetName(), `{"spec":{"providerID":"fake://`+m.GetName()+`"}}`)
			f.patch(ctx, fakeMachines, m.GetName(), `{"status":{"initialization":{"provisioned":true},"addresses":[{"type":"InternalIP","address":"192.0.2.2"}]}}`, "status")
		}
	}
}

// randomName matches the random parts that the controllers append to names.
var randomName = regexp.MustCompile(`(-[a-z0-9]{5})+$`)

// fleetLine describes an object without values that differ between runs: its name, labels, owners
// and finalizers, its specification, and the conditions and numbers of its status.
func fleetLine(o *unstructured.Unstructured) string {
	steady := func(name string) string { return randomName.ReplaceAllString(name, "-*") }
	out := o.GetKind() + " " + steady(o.GetName())
	for _, owner := range o.GetOwnerReferences() {
		out += " of " + owner.Kind + " " + steady(owner.Name)
	}
	labels := o.GetLabels()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if key != "machine-template-hash" {
			out += " " + key + "=" + steady(labels[key])
		}
	}
	out += fmt.Sprint(" ", o.GetFinalizers(), " note=", o.GetAnnotations()["note"])
	if o.GetDeletionTimestamp() != nil {
		out += " ending"
	}
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	for _, key := range slices.Sorted(maps.Keys(status)) {
		if _, isNumber := status[key].(int64); isNumber && key != "observedGeneration" {
			out += fmt.Sprint(" ", key, " ", status[key])
		}
	}
	out += fmt.Sprint(" phase ", status["phase"])
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		condition := c.(map[string]any)
		out += fmt.Sprint(", ", condition["type"], "=", condition["status"], " ", condition["reason"])
	}
	for _, key := range []string{"cpus", "memory", "replicas", "version", "bootstrap"} {
		if value, ok, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", key); ok {
			out += fmt.Sprint(" ", key, " ", value)
		}
	}
	return out
}

// writeServingCertificate writes the self-signed certificate that the webhook server needs to
// start. No client connects to the server.
func writeServingCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check.NoError(t, err)
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: certificate}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		check.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}
