package proxyfuzz

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/internal/testing/check"
)

// ours is the label selector of the permissions that are replaced in each round.
const ours = "proxyfuzz=round"

// roundsOf is the number of requests in a round. The permissions do not change during a round.
const roundsOf = 500

// grant is a role and its subjects.
type grant struct {
	namespace string // empty: all namespaces
	rules     []rbacv1.PolicyRule
	subjects  []rbacv1.Subject
}

// grantsOf returns random permissions for a round.
func grantsOf(d dice) []grant {
	grants := make([]grant, 20+d.IntN(20))
	for i := range grants {
		g := &grants[i]
		if d.percent(60) {
			g.namespace = pick(d, namespaces...)
		}
		for range 1 + d.IntN(3) {
			g.rules = append(g.rules, ruleOf(d, g.namespace == ""))
		}
		for range 1 + d.IntN(2) {
			g.subjects = append(g.subjects, subjectOf(d))
		}
	}
	return grants
}

func subjectOf(d dice) rbacv1.Subject {
	switch n := d.IntN(10); {
	case n < 6:
		return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: pick(d, append(people, constrain)...)}
	case n < 8:
		return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: pick(d, groups...)}
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: pick(d, "mine", "yours"), Name: "robot"}
}

func ruleOf(d dice, everywhere bool) rbacv1.PolicyRule {
	if everywhere && d.percent(25) {
		return rbacv1.PolicyRule{Verbs: []string{"get", pick(d, "post", "head", "*")}, NonResourceURLs: some(d, 2, "/metrics", "/version", "/api*", "/openapi/*", "/logs", "*", "/debug/*")}
	}
	if d.percent(15) {
		return impersonateRule(d, pick(d, "impersonate", "impersonate", "*"))
	}
	r := pick(d, resources...)
	rule := rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.name}}
	if d.percent(10) {
		rule.APIGroups = pick(d, []string{"*"}, []string{"", fuzzGroup})
	}
	if d.percent(30) {
		other := pick(d, resources...)
		rule.Resources = append(rule.Resources, pick(d, other.name, other.name+"/status", r.name+"/status", r.name+"/*", "*/status", "*"))
	}
	if d.percent(8) {
		rule.Resources = []string{pick(d, r.name+"/status", "*/*", "*", "*/log")}
	}
	rule.Verbs = pick(d, []string{"get", "list", "watch"}, []string{"get"}, []string{"list"}, []string{"watch"}, []string{"list", "watch"}, []string{"*"},
		[]string{"get", "list"}, []string{"create", "update", "patch"}, []string{"delete", "deletecollection", "get"})
	if d.percent(25) {
		rule.ResourceNames = some(d, 2, r.names...)
	}
	return rule
}

// impersonateRule returns a random permission to impersonate.
func impersonateRule(d dice, verbs ...string) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{pick(d, "", "authentication.k8s.io", "*")}}
	rule.Resources = some(d, 3, "users", "groups", "serviceaccounts", "userextras/scopes", "userextras", "uids", "*")
	if d.percent(50) {
		rule.ResourceNames = some(d, 4, append(append([]string{"robot", "view", "7"}, people...), groups...)...)
	}
	return rule
}

// canary returns the name of a round's canary. The canary is a user whose permissions are created
// after all others and removed last. When a server uses the canary's new permissions, it uses all
// new permissions.
func canary(round int) string { return fmt.Sprint("canary-", round) }

// grant replaces the permissions of the previous round by the permissions of this round. It returns
// when kube-apiserver and the proxy use only the new permissions.
func (w *world) grant(t *testing.T, ctx context.Context, round int, grants []grant) {
	t.Helper()
	api := w.client.RbacV1()
	w.warm(t, ctx, canary(round-1))
	for _, ns := range namespaces {
		check.NoError(t, api.RoleBindings(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ours}))
		check.NoError(t, api.Roles(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ours}))
	}
	check.NoError(t, api.ClusterRoleBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ours}))
	check.NoError(t, api.ClusterRoles().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ours}))
	before := canary(round - 1)
	until(t, ctx, "kube-apiserver knows that the permissions are gone", func() bool {
		return !w.may(t, ctx, before, "configmaps", namespaces[1]) && !w.may(t, ctx, before, "secrets", namespaces[0])
	})
	w.forget(t, ctx, before)
	for i, g := range grants {
		w.give(t, ctx, fmt.Sprintf("fuzz-%d-%d", round, i), g)
	}
	last := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}
	who := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: canary(round)}}
	w.give(t, ctx, canary(round), grant{rules: last, subjects: who})
	last = []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}
	w.give(t, ctx, canary(round), grant{namespace: namespaces[0], rules: last, subjects: who})
	until(t, ctx, "kube-apiserver knows the permissions", func() bool {
		return w.may(t, ctx, canary(round), "configmaps", namespaces[1]) && w.may(t, ctx, canary(round), "secrets", namespaces[0])
	})
	w.follow(t, ctx)
}

// give creates a role and its binding.
func (w *world) give(t *testing.T, ctx context.Context, name string, g grant) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"proxyfuzz": "round"}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	api := w.client.RbacV1()
	var err error
	if g.namespace == "" {
		if _, err = api.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: g.rules}, metav1.CreateOptions{}); err == nil {
			_, err = api.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: g.subjects}, metav1.CreateOptions{})
		}
	} else {
		ref.Kind = "Role"
		if _, err = api.Roles(g.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: g.rules}, metav1.CreateOptions{}); err == nil {
			_, err = api.RoleBindings(g.namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: g.subjects}, metav1.CreateOptions{})
		}
	}
	check.NoError(t, err)
}

// may asks kube-apiserver whether a user may get objects of a resource in a namespace.
func (w *world) may(t *testing.T, ctx context.Context, who, what, where string) bool {
	t.Helper()
	review, err := w.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: what, Namespace: where},
	}}, metav1.CreateOptions{})
	check.NoError(t, err)
	return review.Status.Allowed
}

// asCanary sends a GET of a Secret to the proxy in the canary's name. It returns the status code.
// The proxy answers the GET from its cache.
func (w *world) asCanary(t *testing.T, ctx context.Context, who string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.proxy.URL()+"/api/v1/namespaces/mine/secrets/key?resourceVersion=0", nil)
	check.NoError(t, err)
	req.Header.Set("X-Remote-User", who)
	resp, err := w.proxied.client("canary", w.front, false).Do(req)
	check.NoError(t, err)
	resp.Body.Close()
	return resp.StatusCode
}

// warm makes the proxy ask kube-apiserver for the canary's permissions, and cache the answer. The
// proxy's cached answers about all other callers are then older.
func (w *world) warm(t *testing.T, ctx context.Context, who string) {
	t.Helper()
	if code := w.asCanary(t, ctx, who); code != http.StatusOK && code != http.StatusForbidden {
		t.Fatalf("the canary is answered %d", code)
	}
}

// forget waits until the proxy no longer uses its cached answer about a canary. By then it does not
// use the older answers about other callers either.
func (w *world) forget(t *testing.T, ctx context.Context, who string) {
	t.Helper()
	until(t, ctx, "the proxy has forgotten the permissions of before", func() bool { return w.asCanary(t, ctx, who) == http.StatusForbidden })
}

// follow waits until the caches of kube-apiserver and of the proxy contain the new permissions.
// This is necessary because the fuzzer also reads roles as objects.
func (w *world) follow(t *testing.T, ctx context.Context) {
	t.Helper()
	w.known = map[string]string{}
	maps.Copy(w.known, w.frozen)
	for _, r := range resources {
		if !r.permissions {
			continue
		}
		want := versions(t, ctx, w.objects, r, metav1.ListOptions{})
		maps.Copy(w.known, want)
		until(t, ctx, "everybody has the new "+r.name, func() bool {
			any := metav1.ListOptions{ResourceVersion: "0"}
			return maps.Equal(versions(t, ctx, w.objects, r, any), want) && maps.Equal(versions(t, ctx, w.through, r, any), want)
		})
	}
}

// versions returns the resourceVersions of a resource's objects, by UID.
func versions(t *testing.T, ctx context.Context, from dynamic.Interface, r *resource, o metav1.ListOptions) map[string]string {
	t.Helper()
	list, err := from.Resource(r.gvr()).List(ctx, o)
	check.NoError(t, err)
	out := map[string]string{}
	for _, item := range list.Items {
		out[string(item.GetUID())] = item.GetResourceVersion()
	}
	return out
}

// giveForGood creates permissions that do not change between rounds, for constrained impersonation.
// kube-apiserver caches for some seconds who may use constrained impersonation, so changes would
// not be effective immediately.
func (w *world) giveForGood(t *testing.T, ctx context.Context) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: constrain}
	rules := []rbacv1.PolicyRule{
		{Verbs: []string{"impersonate:user-info"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"users", "groups"}, ResourceNames: []string{"ann", "bob", "staff"}},
		{Verbs: []string{"impersonate:serviceaccount"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"serviceaccounts"}},
		{Verbs: []string{"impersonate-on:user-info:get", "impersonate-on:user-info:list"}, APIGroups: []string{""}, Resources: []string{"pods", "configmaps", "secrets"}},
		{Verbs: []string{"impersonate-on:serviceaccount:*", "impersonate-on:serviceaccount:get", "impersonate-on:serviceaccount:watch"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	}
	api := w.client.RbacV1()
	if _, err := api.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: constrain},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: constrain}, {Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "eve"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
