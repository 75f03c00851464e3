package programs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/e2e/programs/report"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// certificates is the number of certificates that cert-manager must issue, in addition to the CA's.
const certificates = 20

// certify tests cert-manager in a cluster with many unrelated Secrets: as many as the clusters of
// the other tests have pods. cert-manager must create a CA and issue certificates with it. It must
// reissue a certificate whose Certificate was changed, and a certificate whose Secret was deleted.
// certify returns a line about each Certificate.
func certify(t *testing.T, ctx context.Context, binary string) (usage, []string) {
	w := newWorld(t, ctx, podsim.New(0, 1))
	c := certManager{w, t}
	c.installDefinitions(t, ctx, "cert-manager", "github.com/cert-manager/cert-manager", "deploy/crds/*.yaml")
	c.fill(ctx)
	s, err := start(binary, w.kubeconfig)
	check.NoError(t, err)
	t.Cleanup(func() { // runs before the cluster is stopped
		if s.end(); t.Failed() {
			t.Log(s.log)
		}
	})
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	check.NoError(t, s.await(ctx, certificates+1))
	c.change(ctx)
	var all map[string]json.RawMessage
	testenv.EventuallyNoError(t, ctx, "certificates are issued again", func() error {
		all = nil
		check.NoError(t, s.question(report.AskAll, &all))
		issued := func(certificate, host string) bool { return strings.Contains(string(all[certificate]), host) }
		if len(all) != certificates+1 || !issued("cert-0", "more.example") || !issued("last", "last.example") {
			return fmt.Errorf("there are %q", slices.Sorted(maps.Keys(all)))
		}
		return nil
	})
	var end []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		end = append(end, name+" "+string(all[name]))
	}
	return s.end(), end
}

// certManager creates and changes the objects that cert-manager reads.
type certManager struct {
	*world
	t *testing.T
}

// certNamespace is the namespace of the Certificates and Secrets.
const certNamespace = "certificates"

var (
	issuerResource      = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "issuers"}
	certificateResource = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
)

// fill creates a namespace with unrelated Secrets, a CA and Certificates of the CA.
func (c certManager) fill(ctx context.Context) {
	c.t.Helper()
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: certNamespace}}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	for i := range *podsFlag {
		_, err := c.client.CoreV1().Secrets(certNamespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other-%d", i), Annotations: map[string]string{"of": fmt.Sprint("release ", i)}},
			Data:       map[string][]byte{"release": bytes.Repeat(fmt.Appendf(nil, "%d of another program, ", i), 200)},
		}, metav1.CreateOptions{})
		check.NoError(c.t, err)
	}
	c.create(ctx, issuerResource, "Issuer", "selfsigned", map[string]any{"selfSigned": map[string]any{}})
	c.create(ctx, certificateResource, "Certificate", "ca", map[string]any{
		"isCA": true, "commonName": "ca.example", "secretName": "ca",
		"privateKey": map[string]any{"algorithm": "ECDSA"}, "issuerRef": map[string]any{"name": "selfsigned"},
	})
	c.create(ctx, issuerResource, "Issuer", "ca", map[string]any{"ca": map[string]any{"secretName": "ca"}})
	for i := range certificates {
		c.want(ctx, fmt.Sprintf("cert-%d", i))
	}
}

// want creates a Certificate that the CA must issue.
func (c certManager) want(ctx context.Context, name string) {
	c.t.Helper()
	c.create(ctx, certificateResource, "Certificate", name, map[string]any{
		"secretName": name, "dnsNames": []any{name + ".example"},
		"privateKey": map[string]any{"algorithm": "ECDSA"}, "issuerRef": map[string]any{"name": "ca"},
	})
}

func (c certManager) create(ctx context.Context, resource schema.GroupVersionResource, kind, name string, spec map[string]any) {
	c.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": certNamespace}, "spec": spec,
	}}
	if _, err := c.objects.Resource(resource).Namespace(certNamespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// change changes the host names of one Certificate, deletes the Secret of a second one, and deletes
// a third Certificate. It waits until the first two are issued again, and creates one more
// Certificate.
func (c certManager) change(ctx context.Context) {
	c.t.Helper()
	wanted, secrets := c.objects.Resource(certificateResource).Namespace(certNamespace), c.client.CoreV1().Secrets(certNamespace)
	_, err := wanted.Patch(ctx, "cert-0", types.MergePatchType, []byte(`{"spec":{"dnsNames":["cert-0.example","more.example"]}}`), metav1.PatchOptions{})
	if err == nil {
		err = secrets.Delete(ctx, "cert-1", metav1.DeleteOptions{})
	}
	if err == nil {
		err = wanted.Delete(ctx, "cert-2", metav1.DeleteOptions{})
	}
	check.NoError(c.t, err)
	for name, hosts := range map[string][]string{"cert-0": {"cert-0.example", "more.example"}, "cert-1": {"cert-1.example"}} {
		testenv.EventuallyNoError(c.t, ctx, name+" is issued again", func() error { return c.issued(ctx, name, hosts) })
	}
	c.want(ctx, "last")
}

// issued returns nil if the Secret with this name has a certificate for exactly these hosts.
// Otherwise, it returns an error that says what is missing.
func (c certManager) issued(ctx context.Context, name string, hosts []string) error {
	secret, err := c.client.CoreV1().Secrets(certNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return fmt.Errorf("%s has no certificate", name)
	}
	x, err := x509.ParseCertificate(block.Bytes)
	if err == nil && !slices.Equal(x.DNSNames, hosts) {
		err = fmt.Errorf("%s is for %v", name, x.DNSNames)
	}
	return err
}
