package proxy

import (
	"context"
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// expect reads events until it receives an event of the pod with this name. It fails the test if
// the watch ends first.
func expect(t *testing.T, ctx context.Context, w watch.Interface, name string) {
	t.Helper()
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatalf("the watch ended before %s", name)
			}
			if p, ok := e.Object.(*corev1.Pod); ok && p.Name == name {
				return
			}
		case <-ctx.Done():
			t.Fatalf("no event of %s", name)
		}
	}
}

// TestDenied checks that a caller without permission, or with invalid credentials, gets the error
// that kube-apiserver returns, and no object.
func TestDenied(t *testing.T) {
	ctx := begin(t)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}})
	direct := clientFor(t, mustConfig(t, "stranger"))
	_, want := direct.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	for name, cfg := range map[string]*rest.Config{"token": as(t, s, "stranger"), "certificate": through(t, s, issue(t, callers, "stranger"))} {
		client := clientFor(t, cfg)
		_, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if !apierrors.IsForbidden(err) || err.Error() != want.Error() {
			t.Errorf("%s: %v instead of %v", name, err, want)
		}
		if _, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s: watch: %v", name, err)
		}
		if _, err := client.CoreV1().Pods("default").Create(ctx, newPod("no"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s: create: %v", name, err)
		}
	}
	forged := through(t, s, &rest.Config{BearerToken: "forged"})
	if _, err := clientFor(t, forged).CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a forged token: %v", err)
	}
	other, err := testenv.NewAuthority(t.TempDir() + "/other.crt")
	check.NoError(t, err)
	foreign := issue(t, other, "carol", "system:masters")
	atServer := shared.Config()
	atServer.BearerToken, atServer.CertData, atServer.KeyData = "", foreign.CertData, foreign.KeyData
	for where, cfg := range map[string]*rest.Config{"proxy": through(t, s, foreign), "kube-apiserver": atServer} {
		if _, err := clientFor(t, cfg).CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"}); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: a certificate of another CA: %v", where, err)
		}
	}
	// The proxy ignores headers of a front proxy if the request has no certificate of a front proxy.
	for name, cfg := range map[string]*rest.Config{"token": as(t, s, "stranger"), "certificate": through(t, s, issue(t, callers, "stranger"))} {
		cfg.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return remoteUser{rt, "weir-admin"} }
		if _, err := clientFor(t, cfg).CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"}); !apierrors.IsForbidden(err) {
			t.Errorf("%s: a caller that pretends to be another: %v", name, err)
		}
	}
}

func mustConfig(t *testing.T, user string) *rest.Config {
	t.Helper()
	cfg, err := shared.ConfigFor(user)
	check.NoError(t, err)
	return cfg
}

// TestNamesAndNamespaces checks that a permission for one name allows reads of that object only,
// and that the proxy answers such a read from its cache.
func TestNamesAndNamespaces(t *testing.T) {
	ctx := begin(t)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}})
	admin := clientFor(t, shared.Config())
	if _, err := admin.CoreV1().Pods("default").Create(ctx, newPod("mine"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rule := readPods
	rule.ResourceNames = []string{"mine"}
	granted(t, ctx, "reader", rule)
	client := clientFor(t, as(t, s, "reader"))
	zero := metav1.ListOptions{ResourceVersion: "0", FieldSelector: "metadata.name=mine"}
	testenv.Eventually(t, ctx, "the permission and the pod have come", func() bool {
		list, err := client.CoreV1().Pods("default").List(ctx, zero)
		return err == nil && len(list.Items) == 1
	})
	before := metric(t, ctx, s, "weir_proxy_served_total{")
	list, err := client.CoreV1().Pods("default").List(ctx, zero)
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if metric(t, ctx, s, "weir_proxy_served_total{") != before+1 {
		t.Error("it was not answered from here")
	}
	if _, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{ResourceVersion: "0"}); !apierrors.IsForbidden(err) {
		t.Errorf("all pods: %v", err)
	}
	if _, err := client.CoreV1().Pods("default").Get(ctx, "other", metav1.GetOptions{ResourceVersion: "0"}); !apierrors.IsForbidden(err) {
		t.Errorf("another pod: %v", err)
	}
}

// TestRevoked checks that the proxy ends a caller's watch when the caller's permission is revoked.
func TestRevoked(t *testing.T) {
	ctx := begin(t)
	revoke := granted(t, ctx, "leaver", readPods)
	revokeCert := granted(t, ctx, "cert-leaver", readPods)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}, Recheck: 200 * time.Millisecond,
		Authentication: proxy.Authentication{AllowTTL: 100 * time.Millisecond, DenyTTL: 100 * time.Millisecond}})
	for _, cfg := range []*rest.Config{as(t, s, "leaver"), through(t, s, issue(t, callers, "cert-leaver"))} {
		w, err := clientFor(t, cfg).CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
		check.NoError(t, err)
		defer w.Stop()
		<-w.ResultChan()
		revoke()
		revoke = revokeCert
		for ended := false; !ended; {
			select {
			case _, ok := <-w.ResultChan():
				ended = !ok
			case <-ctx.Done():
				t.Fatal("the watch goes on")
			}
		}
	}
	check.Equal(t, metric(t, ctx, s, "weir_proxy_revoked_watches_total"), 2, "watches were revoked")
}

// TestPassedOn checks that the proxy forwards writes with the caller's identity. One caller has a
// token, and the other has a certificate.
func TestPassedOn(t *testing.T) {
	ctx := begin(t)
	all := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "pods/status", "configmaps"}, Verbs: []string{"*"}}
	granted(t, ctx, "reader", all)
	granted(t, ctx, "carol", all)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}})
	for user, cfg := range map[string]*rest.Config{"reader": as(t, s, "reader"), "carol": through(t, s, issue(t, callers, "carol", "staff"))} {
		client := clientFor(t, cfg)
		me, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, selfReview(), metav1.CreateOptions{})
		if err != nil || me.Status.UserInfo.Username != user {
			t.Errorf("%s is %+v upstream, %v", user, me.Status.UserInfo, err)
		}
		name := "written-by-" + user
		pods := client.CoreV1().Pods("default")
		made, err := pods.Create(ctx, newPod(name), metav1.CreateOptions{})
		check.NoError(t, err)
		patched, err := pods.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
		if err != nil || patched.Labels["x"] != "y" {
			t.Errorf("patch: %v", err)
		}
		// After a write, the cache serves a read at the resourceVersion of that write.
		got, err := pods.Get(ctx, name, metav1.GetOptions{ResourceVersion: patched.ResourceVersion})
		if err != nil || got.ResourceVersion != patched.ResourceVersion || got.UID != made.UID {
			t.Errorf("%v, %v", got, err)
		}
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Error(err)
		}
	}
}

// TestImpersonation checks that a caller can impersonate a user, as with kubectl --as. One caller
// has a token, and the other has a certificate.
func TestImpersonation(t *testing.T) {
	ctx := begin(t)
	granted(t, ctx, "reader", readPods)
	granted(t, ctx, "carol", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"reader"}, Verbs: []string{"impersonate"}})
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}})
	zero := metav1.ListOptions{ResourceVersion: "0"}
	for name, cfg := range map[string]*rest.Config{"token": through(t, s, shared.Config()), "certificate": through(t, s, issue(t, callers, "carol"))} {
		cfg.Impersonate = rest.ImpersonationConfig{UserName: "reader"}
		client := clientFor(t, cfg)
		testenv.Eventually(t, ctx, "the permission has come", func() bool {
			_, err := client.CoreV1().Pods("").List(ctx, zero)
			return err == nil
		})
		me, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, selfReview(), metav1.CreateOptions{})
		if err != nil || me.Status.UserInfo.Username != "reader" {
			t.Errorf("%s: %+v, %v", name, me.Status.UserInfo, err)
		}
		if _, err := client.CoreV1().Secrets("").List(ctx, zero); !apierrors.IsForbidden(err) {
			t.Errorf("%s: what reader may not: %v", name, err)
		}
	}
	cfg := through(t, s, issue(t, callers, "carol"))
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "weir-admin", Groups: []string{"system:masters"}}
	if _, err := clientFor(t, cfg).CoreV1().Pods("").List(ctx, zero); !apierrors.IsForbidden(err) {
		t.Errorf("impersonating an admin: %v", err)
	}
}

func selfReview() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} }
