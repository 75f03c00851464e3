package proxy

import (
	"context"
	"errors"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// errRedefined ends a session whose resource is written in another way now: its schema, defaults,
// conversion or served versions have changed, or the upstream has been upgraded. The objects keep
// their resourceVersions, so that no watch tells of it.
var errRedefined = errors.New("the upstream has come to define the resource in another way")

// definition is what tells one way to write a resource from another: texts by what they are. Each
// is missing that cannot be had.
type definition map[string]string

// definition asks for what defines a resource now: the upstream's version, the mark of the schema
// of the group's version, and, for a custom resource, the generation of its definition, if the
// proxy may read it.
func (d discoverer) definition(ctx context.Context, gvr schema.GroupVersionResource) definition {
	def := definition{}
	var version struct{ GitVersion string }
	if d.get(ctx, &version, "/version") == nil && version.GitVersion != "" {
		def["version"] = version.GitVersion
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	path := "apis/" + gvr.GroupVersion().String()
	if gvr.Group == "" {
		path = "api/" + gvr.Version
	}
	if d.get(ctx, &index, "/openapi/v3") == nil && index.Paths[path].ServerRelativeURL != "" {
		def["schema"] = index.Paths[path].ServerRelativeURL // which has a hash of the schema
	}
	var crd struct {
		metav1.ObjectMeta `json:"metadata"`
	}
	if !scheme.Scheme.IsGroupRegistered(gvr.Group) && d.get(ctx, &crd, crdPath, gvr.Resource+"."+gvr.Group) == nil && crd.UID != "" {
		def["definition"] = string(crd.UID) + "/" + strconv.FormatInt(crd.Generation, 10)
	}
	return def
}

// differsFrom reports whether something is another than it was. What was not known then, or is not
// now, tells nothing.
func (def definition) differsFrom(was definition) bool {
	for what, text := range def {
		if before, ok := was[what]; ok && before != text {
			return true
		}
	}
	return false
}

// merge adds what was not known before.
func (def definition) merge(more definition) {
	for what, text := range more {
		if def[what] == "" {
			def[what] = text
		}
	}
}
