package doctor

// incidents are the pages of docs/incidents that explain what is of each kind.
var incidents = map[string]string{
	FindingPolling: "concurrent-lists",
	FindingResync:  "resync-storm",
	FindingNodes:   "node-agents",
	FindingPart:    "resync-storm",
	FindingRelist:  "relist",
	FindingWatches: "initial-events",
	FindingFailing: "concurrent-lists",
	FindingRefused: "thundering-restart",
}

// IncidentOf returns the name of the incident that a kind of finding is explained by; empty: there
// is none.
func IncidentOf(kind string) string { return incidents[kind] }
