package api

import (
	"net/http"
	"strings"
)

// Rewound is an API server of ConfigMaps and Secrets that Restore sets back to a backup. It has one
// object of each kind, n/o, whose label app is "before" or "after" (the restore). Rewound
// implements http.RoundTripper. At the restore, the watches of ConfigMaps break. The watches of
// Secrets remain open and silent, at a resourceVersion that the server then reaches a second time.
type Rewound struct{ ConfigMaps, Secrets *Client }

// NewRewound returns a server before its restore. It must be called in a synctest bubble.
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

// put writes the object n/o, and then other objects until the newest revision is head.
func (h *History) put(label string, head int64) {
	h.Put(0, Key{"n", "o"}, map[string]string{"app": label}, "")
	for h.Era().Head() < head {
		h.Bump(0)
	}
}

// Restore restores the server from a backup. After that, the newest resourceVersion is lower than
// before for ConfigMaps, and higher for Secrets.
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

// CloseIdleConnections is a no-op, because the server has no connections.
func (s *Rewound) CloseIdleConnections() {}
