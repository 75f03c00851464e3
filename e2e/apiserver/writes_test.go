package apiserver

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weirproject/weir/internal/testing/check"
)

// step is a write. fields are the fields of the answer that must be equal on the embedded server
// and on kube-apiserver. The status code, the kind and the reason must always be equal.
type step struct {
	name, method, path, body string
	fields                   []string
}

const (
	secrets     = "/api/v1/namespaces/default/secrets"
	deployments = "/apis/apps/v1/namespaces/default/deployments"
	pods        = "/api/v1/namespaces/default/pods"
	accounts    = "/api/v1/namespaces/default/serviceaccounts"
	podSpec     = `{"terminationGracePeriodSeconds":0,"automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}]}`
)

var steps = []step{
	{"a missing namespace", "POST", "/api/v1/namespaces/missing/configmaps", `{"metadata":{"name":"x"}}`, []string{"message", "details"}},
	{"stringData", "POST", secrets, `{"metadata":{"name":"s"},"data":{"a":"MQ==","b":"Mg=="},"stringData":{"b":"3","c":"4"}}`, []string{"data", "stringData"}},
	{"stringData replaced", "PUT", secrets + "/s", `{"metadata":{"name":"s"},"stringData":{"d":"5"}}`, []string{"data", "stringData"}},
	{"stringData patched", "PATCH", secrets + "/s", `{"stringData":{"e":"6"}}`, []string{"data", "stringData"}},
	{"an account", "POST", accounts, `{"metadata":{"name":"a"}}`, nil},
	{"a pod with the old field of its account", "POST", pods,
		`{"metadata":{"name":"p","annotations":{"pod.beta.kubernetes.io/init-containers":"[]","keep":"me"}},"spec":` + strings.Replace(podSpec, "{", `{"serviceAccount":"a",`, 1) + `}`,
		[]string{"spec.serviceAccount", "spec.serviceAccountName", "metadata.annotations"}},
	{"a deployment", "POST", deployments, `{"metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"b":"2","a":"1"},"matchExpressions":[{"key":"c","operator":"Exists"}]},` +
		`"template":{"metadata":{"labels":{"a":"1","b":"2","c":"3"}},"spec":` + podSpec + `}}}`, []string{"spec.replicas", "metadata.generation"}},
	{"its scale", "GET", deployments + "/d/scale", "", []string{"apiVersion", "spec", "status", "metadata.name", "metadata.namespace"}},
	{"its scale patched", "PATCH", deployments + "/d/scale", `{"spec":{"replicas":3}}`, []string{"spec", "status"}},
	{"a negative scale", "PATCH", deployments + "/d/scale", `{"spec":{"replicas":-1}}`, []string{"details.kind", "details.causes"}},
	{"a scale of another name", "PUT", deployments + "/d/scale", `{"metadata":{"name":"e"},"spec":{"replicas":1}}`, nil},
	{"a scale of an old version", "PUT", deployments + "/d/scale", `{"metadata":{"name":"d","namespace":"default","resourceVersion":"1"},"spec":{"replicas":1}}`, nil},
	{"a scale replaced", "PUT", deployments + "/d/scale", `{"metadata":{"name":"d","namespace":"default"},"spec":{"replicas":5}}`, []string{"spec"}},
	{"the scaled deployment", "GET", deployments + "/d", "", []string{"spec.replicas", "metadata.generation"}},
	{"the scale of nothing", "GET", deployments + "/none/scale", "", []string{"details"}},
	{"a scale deleted", "DELETE", deployments + "/d/scale", "", nil},
	{"an eviction of another pod", "POST", pods + "/p/eviction", `{"metadata":{"name":"q"}}`, nil},
	{"an eviction", "POST", pods + "/p/eviction", `{"metadata":{"name":"p"}}`, []string{"status"}},
	{"the evicted pod", "GET", pods + "/p", "", []string{"details"}},
	{"an eviction of nothing", "POST", pods + "/p/eviction", `{"metadata":{"name":"p"}}`, []string{"details"}},
	{"an eviction read", "GET", pods + "/p/eviction", "", nil},
	{"a token", "POST", accounts + "/a/token", `{"spec":{"audiences":["x"],"expirationSeconds":600}}`, []string{"metadata.name", "metadata.namespace", "spec.audiences"}},
	{"a token of no account", "POST", accounts + "/none/token", `{}`, []string{"details"}},
	{"may I", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`, []string{"status.allowed", "spec"}},
	{"may I in a namespace", "POST", "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
		`{"metadata":{"namespace":"default"},"spec":{"user":"u","groups":["system:masters"],"resourceAttributes":{"namespace":"default","verb":"get","resource":"pods"}}}`, []string{"status.allowed"}},
	{"who am I", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, []string{"metadata.name"}},
	{"reviews cannot be read", "GET", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "", nil},
}

// TestWrites checks that the embedded server and kube-apiserver give equal answers to writes of
// write-only fields, scales, evictions, tokens and reviews.
func TestWrites(t *testing.T) {
	ctx, _, ours, theirs := startBoth(t)
	t.Cleanup(func() {
		for _, path := range []string{secrets + "/s", accounts + "/a", deployments + "/d"} {
			theirs.do(t, context.WithoutCancel(ctx), step{method: http.MethodDelete, path: path})
		}
	})
	for _, s := range steps {
		a, acode := ours.do(t, ctx, s)
		b, bcode := theirs.do(t, ctx, s)
		if s.name == "an eviction" && bcode == http.StatusTooManyRequests {
			t.Fatalf("%s: kube-apiserver answers %v", s.name, b)
		}
		if acode != bcode {
			t.Errorf("%s: embedded %d %v, kube-apiserver %d %v", s.name, acode, a, bcode, b)
			continue
		}
		for _, field := range append(s.fields, "kind", "reason") {
			path := strings.Split(field, ".")
			x, _, _ := unstructured.NestedFieldNoCopy(a, path...)
			y, _, _ := unstructured.NestedFieldNoCopy(b, path...)
			if !reflect.DeepEqual(x, y) {
				t.Errorf("%s: %s is %v, and of kube-apiserver %v", s.name, field, x, y)
			}
		}
	}
}

// do sends the request of a step. It returns the object and the status code of the answer.
func (s *server) do(t *testing.T, ctx context.Context, of step) (map[string]any, int) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, of.method, s.config.Host+of.path, strings.NewReader(of.body))
	check.NoError(t, err)
	req.Header.Set("Content-Type", jsonType)
	if of.method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := s.client.Do(req)
	check.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check.NoError(t, err)
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatalf("%s: %v: %s", of.name, err, text)
	}
	return object, resp.StatusCode
}
