package mirror

import (
	"context"
	"errors"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// ErrRedefined ends a session because the upstream would now write the objects of the resource
// differently. The schema, the defaults, the conversion or the served versions have changed, or the
// upstream was upgraded. The objects keep their resourceVersions, so no watch event shows the
// change.
var ErrRedefined = errors.New("the upstream has changed the definition of the resource")

// definition identifies how the upstream writes the objects of a resource. It maps the names
// "version", "schema" and "definition" to texts, which change if the upstream writes the objects
// differently. A text that the proxy cannot read is missing.
type definition map[string]string

// definition reads the current definition of a resource: the upstream's version and the hash of the
// group version's schema. For a custom resource it also reads the generation of the CRD. If the
// proxy may not read the CRD, the generation is missing.
func (d discoverer) definition(ctx context.Context, gvr schema.GroupVersionResource) definition {
	def := definition{}
	var version struct{ GitVersion string }
	if d.get(ctx, &version, "/version") == nil && version.GitVersion != "" {
		def["version"] = version.GitVersion
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	path := strings.TrimPrefix(strings.Join(groupPath(gvr.GroupVersion()), "/"), "/")
	if d.get(ctx, &index, "/openapi/v3") == nil && index.Paths[path].ServerRelativeURL != "" {
		def["schema"] = index.Paths[path].ServerRelativeURL // contains a hash of the schema
	}
	var crd struct {
		metav1.ObjectMeta `json:"metadata"`
	}
	if !scheme.Scheme.IsGroupRegistered(gvr.Group) && d.get(ctx, &crd, crdPath, gvr.Resource+"."+gvr.Group) == nil && crd.UID != "" {
		def["definition"] = string(crd.UID) + "/" + strconv.FormatInt(crd.Generation, 10)
	}
	return def
}

// differsFrom reports whether a text that is in both definitions differs.
func (def definition) differsFrom(was definition) bool {
	for what, text := range def {
		if before, ok := was[what]; ok && before != text {
			return true
		}
	}
	return false
}

// has reports whether def contains all texts of other, and other has at least one.
func (def definition) has(other definition) bool {
	for what, text := range other {
		if def[what] != text {
			return false
		}
	}
	return len(other) > 0
}

// merge adds to def the texts of the other definition (more) that def lacks.
func (def definition) merge(more definition) {
	for what, text := range more {
		if def[what] == "" {
			def[what] = text
		}
	}
}
