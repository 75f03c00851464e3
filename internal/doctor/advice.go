package doctor

// incidents are the pages of docs/incidents that explain what is of each kind.
var incidents = map[string]string{
	KindPolling: "concurrent-lists",
	KindResync:  "resync-storm",
	KindNodes:   "node-agents",
	KindPart:    "resync-storm",
	KindRelist:  "relist",
	KindWatches: "initial-events",
	KindFailing: "concurrent-lists",
	KindRefused: "thundering-restart",
}

// IncidentOf returns the name of the incident that a kind of finding is explained by; empty: there
// is none.
func IncidentOf(kind string) string { return incidents[kind] }
