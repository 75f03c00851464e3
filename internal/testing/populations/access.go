package populations

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// rules returns between one and most random rules of a role.
func rules(w *podsim.Words, most int) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for range w.Between(1, most) {
		out = append(out, rbacv1.PolicyRule{
			APIGroups: []string{podsim.Pick(w, "", "apps", "batch", w.Word()+".example.com")},
			Resources: w.Several(1, 6, w.Word),
			Verbs:     []string{"get", "list", "watch", podsim.Pick(w, "create", "update", "patch", "delete")},
		})
	}
	return out
}

func (m *mixed) role(w *podsim.Words, i int) Object {
	name := fmt.Sprintf("%s-%d", w.Name(), i)
	return &rbacv1.Role{ObjectMeta: meta(w, m.namespace(i), name, name, "rules"), Rules: rules(w, 6)}
}

func (m *mixed) clusterRole(w *podsim.Words, i int) Object {
	name := fmt.Sprintf("%s-%d", w.Name(), i)
	return &rbacv1.ClusterRole{ObjectMeta: meta(w, "", name, name, "rules"), Rules: rules(w, 40)}
}

func (m *mixed) roleBinding(w *podsim.Words, i int) Object {
	name := fmt.Sprintf("%s-%d", w.Name(), i)
	return &rbacv1.RoleBinding{
		ObjectMeta: meta(w, m.namespace(i), name, name, "roleRef", "subjects"),
		Subjects:   subjects(w, m.namespace(i)),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: w.Name()},
	}
}

func (m *mixed) clusterRoleBinding(w *podsim.Words, i int) Object {
	name := fmt.Sprintf("%s-%d", w.Name(), i)
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta(w, "", name, name, "roleRef", "subjects"),
		Subjects:   subjects(w, m.namespace(i)),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: w.Name()},
	}
}

func subjects(w *podsim.Words, namespace string) []rbacv1.Subject {
	var out []rbacv1.Subject
	for _, name := range w.Several(1, 4, w.Name) {
		if w.Chance(70) {
			out = append(out, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace})
		} else {
			out = append(out, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name})
		}
	}
	return out
}
