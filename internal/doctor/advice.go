package doctor

// changes are the lines that a remedy comes to, in the words of client-go, for
// pods where it is of a resource.
var changes = map[string]string{
	KindPolling: `factory.Core().V1().Pods().Lister().List(selector) ` +
		`// in the place of client.CoreV1().Pods("").List(ctx, options)`,
	KindResync: `lister.Pods(namespace).List(selector) // in the handler, in the place of a LIST`,
	KindNodes: `metav1.ListOptions{FieldSelector: "spec.nodeName=" + os.Getenv("NODE_NAME"), ` +
		`ResourceVersion: "0"}`,
	KindPart: `informer.GetIndexer().ByIndex("app", app) // in the place of a LIST with a selector`,
	KindRelist: `metav1.ListOptions{Watch: true, ResourceVersion: last, AllowWatchBookmarks: true} ` +
		`// of the last event or bookmark`,
	KindWatches: `metav1.ListOptions{Watch: true, ` +
		`TimeoutSeconds: ptr.To(int64(300 + rand.IntN(300)))}`,
	KindFailing: `pager.New(pager.SimplePageFunc(list)).EachListItem(ctx, ` +
		`metav1.ListOptions{Limit: 500}, each)`,
}

// changeOf returns the line to write where a client does what is of this kind; empty: it is no line
// of the client.
func changeOf(kind string) string { return changes[kind] }

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
