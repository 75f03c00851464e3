package api

import (
	"net/http"
	"strings"
)

// Rewound is an API server of ConfigMaps and Secrets that is restored from a backup. There is one
// object of each, n/o, whose label app is "before" or "after". The server is an http.RoundTripper.
// The watches of ConfigMaps break with the restore. Those of Secrets stay open and silent, at a
// resourceVersion that the server has reached again.
type Rewound struct{ ConfigMaps, Secrets *Client }

// NewRewound returns a server before the restore. It must be called where virtual time runs.
func NewRewound() *Rewound {
	client := func(kind *Kind) *Client {
		h := NewHistory(49, Integers)
		h.put("before", 100)
		return NewCluster(kind, h, []Spec{{}}).Client(kind.Resource, 10)
	}
	s := &Rewound{client(ConfigMaps), client(Secrets)}
	s.Secrets.cluster.AddRule(Rule{Client: -1, Server: -1, Ask: AskWatches, Effect: Stall})
	return s
}

// put writes the object, and then other resources, up to a revision.
func (h *History) put(label string, head int64) {
	h.Put(0, Key{"n", "o"}, map[string]string{"app": label}, "")
	for h.Era().Head() < head {
		h.Bump(0)
	}
}

// Restore sets the server back. ConfigMaps count from an earlier resourceVersion than before, and
// Secrets from a later one.
func (s *Rewound) Restore() {
	for cl, head := range map[*Client]int64{s.ConfigMaps: 60, s.Secrets: 110} {
		cl.cluster.Do(func(h *History) {
			h.Restore(0, 50)
			h.put("after", head)
		})
		cl.cluster.RestartAll()
	}
}

// RoundTrip implements http.RoundTripper.
func (s *Rewound) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/secrets") {
		return s.Secrets.RoundTrip(r)
	}
	return s.ConfigMaps.RoundTrip(r)
}

// CloseIdleConnections does nothing: there are none.
func (s *Rewound) CloseIdleConnections() {}
