package informertest

import "testing"

// Play plays one story and returns its faults.
func Play(t *testing.T, rig Rig, name string) []string {
	for _, s := range Stories() {
		if s.Name == name {
			return play(t, rig, s)
		}
	}
	t.Fatalf("there is no story %s", name)
	return nil
}

// InChild reports whether this process is a child that plays a single story.
func InChild() bool { return inChild() }
