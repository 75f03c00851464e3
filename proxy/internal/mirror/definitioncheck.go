package mirror

import (
	"maps"
	"slices"
	"time"
)

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
