package mirror

import (
	"maps"
	"slices"
	"time"
)

const (
	// mixedVersions is how long a definition counts as one of several that API servers behind one
	// address have, after it was seen last.
	mixedVersions = 20 * time.Minute
	// maxDefinitions bounds the definitions that are remembered of a resource.
	maxDefinitions = 16
)

// definitionHistory has the definitions of a resource that were seen within mixedVersions, the last
// one at the end. The zero value is empty. Only one goroutine uses it at a time.
type definitionHistory struct{ seen []seenDefinition }

// seenDefinition is a definition without the generation of a CRD, which all API servers tell alike.
type seenDefinition struct {
	definition
	at time.Time // when it was seen last
}

// add adds a definition, and reports whether all of it was there. What has no version is not added.
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

// mixed reports whether there are several versions.
func (h *definitionHistory) mixed() bool {
	return slices.ContainsFunc(h.seen, func(s seenDefinition) bool { return s.definition["version"] != h.seen[0].definition["version"] })
}

// definitionCheck finds out when the objects of a session would be written differently. Only one
// goroutine uses it at a time.
//
// While the upstream is upgraded, requests meet API servers of two versions, by turns. So what was
// seen a while ago, in another version, is no redefinition. But the session then has objects of
// either version, so once all servers have one again, it ends.
//
// The hash of a custom resource's schema is that of the whole group, to which others may come. So
// it counts only where the generation of the resource's own definition cannot be read, and until
// settle after the beginning: an API server may come to know a generation later than others, and
// the hash comes from the server.
type definitionCheck struct {
	history *definitionHistory // of all sessions of the resource
	own     definition         // of the session
	began   time.Time
	settle  time.Duration
	mixed   bool // another known version was seen since
}

func newDefinitionCheck(history *definitionHistory, own definition, settle time.Duration, began time.Time) *definitionCheck {
	history.add(own, began)
	return &definitionCheck{history: history, own: own, began: began, settle: settle}
}

// redefines reports whether the definition that was read last redefines the session's resource.
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
