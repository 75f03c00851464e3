package mirror

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestDefinitionDiffers checks that only a text in both definitions can differ, and that merge adds
// missing texts.
func TestDefinitionDiffers(t *testing.T) {
	was := definition{"version": "v1.37.1", "definition": "u/1"}
	for _, tt := range []struct {
		now  definition
		want bool
	}{
		{nil, false},
		{definition{"version": "v1.37.1", "definition": "u/1", "schema": "x"}, false},
		{definition{"version": "v1.37.2"}, true},
		{definition{"definition": "u/2"}, true},
		{definition{"schema": "x"}, false},
	} {
		check.Equal(t, tt.now.differsFrom(was), tt.want, "%v", tt.now)
	}
	was.merge(definition{"schema": "x", "version": "v2"})
	if !(definition{"schema": "y"}).differsFrom(was) || was["version"] != "v1.37.1" {
		t.Errorf("has learned %v", was)
	}
}

// seenAt is one check: the minute of the check, the definition that the definitionCheck sees, and
// whether it must report a redefinition.
type seenAt struct {
	minute  int
	seen    definition
	differs bool
}

// TestDefinitionCheck checks which definitions of two API servers are redefinitions, and when.
func TestDefinitionCheck(t *testing.T) {
	a, b := definition{"version": "a", "schema": "1"}, definition{"version": "b", "schema": "2"}
	crd := func(version, schema, generation string) definition {
		return definition{"version": version, "schema": schema, "definition": generation}
	}
	for name, test := range map[string]struct {
		seen  []seenAt // in earlier sessions
		begun definition
		steps []seenAt
	}{
		"nothing changes":                {begun: a, steps: []seenAt{{1, a, false}, {100, a, false}}},
		"the upstream is down":           {begun: a, steps: []seenAt{{1, definition{}, false}, {100, nil, false}}},
		"an upgrade":                     {begun: a, steps: []seenAt{{1, a, false}, {2, b, true}}},
		"what was seen in an upgrade":    {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, a, false}, {2, b, false}, {3, a, false}}},
		"once the servers agree":         {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, a, false}, {2, b, false}, {20, b, false}, {22, b, true}}},
		"the upstream is down meanwhile": {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, a, false}, {2, b, false}, {40, definition{}, false}, {41, b, true}}},
		"they had agreed before":         {seen: []seenAt{{-1, a, false}}, begun: b, steps: []seenAt{{1, b, false}, {30, b, false}}},
		"an upgrade is undone":           {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, a, false}, {10, a, false}, {21, a, true}}},
		"long after an upgrade":          {seen: []seenAt{{-30, a, false}}, begun: b, steps: []seenAt{{1, a, true}}},
		"a schema of one version":        {seen: []seenAt{{-1, definition{"version": "b", "schema": "3"}, false}}, begun: b, steps: []seenAt{{1, definition{"version": "b", "schema": "3"}, true}}},
		"a schema that no server had":    {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, definition{"version": "a", "schema": "3"}, true}}},
		"only a version, seen":           {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, definition{"version": "a"}, false}}},
		"only a schema, not seen":        {seen: []seenAt{{0, a, false}}, begun: b, steps: []seenAt{{1, definition{"schema": "3"}, true}}},
		"a generation in an upgrade":     {seen: []seenAt{{0, a, false}}, begun: crd("b", "2", "g1"), steps: []seenAt{{1, crd("a", "1", "g2"), true}}},
		"the group at the beginning":     {begun: crd("a", "1", "g1"), steps: []seenAt{{2, crd("a", "2", "g1"), true}}},
		"the group later":                {begun: crd("a", "1", "g1"), steps: []seenAt{{2, crd("a", "1", "g1"), false}, {4, crd("a", "2", "g1"), false}, {5, definition{"version": "a", "schema": "2"}, false}}},
		"the group, which is forbidden":  {begun: a, steps: []seenAt{{10, definition{"version": "a", "schema": "2"}, true}}},
		"the definition cannot be read":  {begun: crd("a", "1", "g1"), steps: []seenAt{{10, definition{"version": "a", "schema": "2"}, true}}},
		"a text that was missing":        {begun: definition{"version": "a"}, steps: []seenAt{{1, a, false}, {2, definition{"version": "a", "schema": "9"}, true}}},
	} {
		began := time.Now()
		at := func(minute int) time.Time { return began.Add(time.Duration(minute) * time.Minute) }
		var history definitionHistory
		for _, s := range test.seen {
			history.add(s.seen, at(s.minute))
		}
		check := newDefinitionCheck(&history, test.begun, DefaultTimeouts.Settle, began)
		for _, s := range test.steps {
			if got := check.redefines(s.seen, at(s.minute)); got != s.differs {
				t.Errorf("%s: minute %d, %v: redefines: %t", name, s.minute, s.seen, got)
			}
		}
	}
}

// TestDefinitionHistory checks that the number of remembered definitions is bounded.
func TestDefinitionHistory(t *testing.T) {
	var history definitionHistory
	now := time.Now()
	for i := range 10 * maxDefinitions {
		history.add(definition{"version": fmt.Sprint(i)}, now)
	}
	check.Equal(t, len(history.seen), maxDefinitions, "are kept")
	if history.add(definition{"version": "x"}, now.Add(mixedVersions)); len(history.seen) != 1 {
		t.Errorf("kept: %v", history.seen)
	}
}
