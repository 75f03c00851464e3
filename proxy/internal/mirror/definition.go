package mirror

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

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
		def[what] = cmp.Or(def[what], text)
	}
}

const (
	// mixedVersions is how long the proxy remembers a definition that it does not see any more. During
	// an upgrade of the upstream, another API server behind the same address may still have that
	// definition.
	mixedVersions = 20 * time.Minute
	// maxDefinitions bounds how many definitions of a resource are remembered.
	maxDefinitions = 16
)

// definitionHistory contains the definitions of a resource that were seen within mixedVersions, the
// most recent last. The zero value is empty. Only one goroutine uses it at a time.
type definitionHistory struct{ seen []seenDefinition }

// seenDefinition is a definition without the generation of the CRD. All API servers return the same
// generation, so it does not distinguish their definitions.
type seenDefinition struct {
	definition
	at time.Time // when it was last seen
}

// add adds a definition, and reports whether the history already contained a definition with all of
// its texts. It does not add a definition without a version.
func (h *definitionHistory) add(def definition, at time.Time) (known bool) {
	h.seen = slices.DeleteFunc(h.seen, func(s seenDefinition) bool { return at.Sub(s.at) >= mixedVersions })
	def = maps.Clone(def)
	delete(def, "definition")
	known = slices.ContainsFunc(h.seen, func(s seenDefinition) bool { return s.has(def) })
	if def["version"] == "" {
		return known
	}
	h.seen = slices.DeleteFunc(h.seen, func(s seenDefinition) bool { return maps.Equal(s.definition, def) })
	if len(h.seen) == maxDefinitions {
		h.seen = slices.Delete(h.seen, 0, 1)
	}
	h.seen = append(h.seen, seenDefinition{def, at})
	return known
}

// mixed reports whether the definitions in the history are from different versions of the upstream.
func (h *definitionHistory) mixed() bool {
	return slices.ContainsFunc(h.seen, func(s seenDefinition) bool { return s.definition["version"] != h.seen[0].definition["version"] })
}

// definitionCheck detects that the upstream would write the objects of a session differently. Only
// one goroutine uses it at a time.
//
// While the upstream is upgraded, requests reach API servers of two versions in turn. Therefore a
// definition is no redefinition if it belongs to the other version and is still in the history. The
// session then contains objects of both versions, and it must end when all servers have the same
// version again.
//
// The schema hash of a custom resource is the hash for its whole group, so it also changes when the
// group gets another resource. A changed hash is therefore a redefinition only in two cases: the
// generation of the CRD cannot be read, or the session is not older than settle. The second case is
// for an API server that loads a generation later than the other servers: only the hash shows what
// this server has loaded.
type definitionCheck struct {
	history *definitionHistory // shared by all sessions of the resource
	own     definition         // the definition of the session
	began   time.Time
	settle  time.Duration
	mixed   bool // another known version was seen after the session began
}

func newDefinitionCheck(history *definitionHistory, own definition, settle time.Duration, began time.Time) *definitionCheck {
	history.add(own, began)
	return &definitionCheck{history: history, own: own, began: began, settle: settle}
}

// redefines reports whether the definition that was just read (now) differs from the session's
// definition.
func (c *definitionCheck) redefines(now definition, at time.Time) bool {
	known := c.history.add(now, at)
	mixed := c.history.mixed()
	if id := c.own["definition"]; id != "" && now["definition"] != "" {
		if id != now["definition"] {
			return true
		}
		if now["schema"] != "" && at.Sub(c.began) >= c.settle {
			c.own["schema"] = now["schema"]
		}
	}
	switch {
	case !now.differsFrom(c.own):
		c.own.merge(now)
		return c.mixed && !mixed && now["version"] != ""
	case known && mixed:
		c.mixed = true
		return false
	}
	return true
}
