package doctor

// kind is a sort of finding: how it is found, what it is called, and what its remedies are. Each
// has a file, find*.go, and an example with its report in testdata/kinds.
type kind struct {
	name       string // in -o json
	does, from string // the row of docs/doctor.md, which a test writes
	incident   string // the page of docs/incidents that explains it; empty: there is none

	find    func(u subject) (Finding, bool) // looks at what a client does with a resource
	findAll func(d *Doctor) []Finding       // looks at all clients

	// change returns the line to write, for client-go; u is nil where only the resource is known.
	change func(a api, u *usage) string
	// kubectl returns the command that a user of kubectl runs instead; nil: it is not found of
	// those.
	kubectl  func(a api) string
	asks     func(w *whatIfCase) []batch // the requests that it is about; nil: the LISTs
	beside   bool                        // it is found beside those about LISTs and WATCHes
	remedies []remedy                    // those that a client can apply alone come first
}

// subject is what one client does with one resource.
type subject struct {
	*usage
	c *client
	d *Doctor
}

// explained returns what explains bursts of LISTs.
func (s subject) explained() explain { return s.d.explains(s.c) }

// kinds are all there are. Of those about the LISTs and WATCHes of a resource, the first that is
// found says most.
var kinds = []*kind{relistKind, nodesKind, resyncKind, pollingKind, partKind, watchesKind, failingKind, refusedKind,
	fightKind, writesKind, eventsKind, getsKind}

// kindOf returns the kind of a name, or nil.
func kindOf(name string) *kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	return nil
}

// IncidentOf returns the name of the incident that a kind of finding is explained by; empty: there
// is none.
func IncidentOf(name string) string {
	if k := kindOf(name); k != nil {
		return k.incident
	}
	return ""
}
