package seats

import (
	"crypto/sha256"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/serve/budget"
)

// Level is the priority of a request. Lower levels come first.
type Level int

const (
	// SystemLeases is for requests for leases (coordination.k8s.io) from callers that run the cluster.
	// If a renewal is late, a leader is replaced, or the pods of a node are evicted. Requests of other
	// levels, even of Leases, cannot take the seats that are reserved for SystemLeases.
	SystemLeases Level = iota
	// Leases is for requests for leases from all other callers.
	Leases
	// System is for all other requests from callers that run the cluster.
	System
	// Everyone is for all other requests from known callers.
	Everyone
	// NewTokens is for requests with a token that the proxy has not authenticated yet: all tokens
	// after a start of the proxy, and tokens that clients make up. Its flows are source addresses,
	// because any client can make up a token.
	NewTokens
	// Anonymous is for requests without a credential. No seats are reserved for Anonymous, and it may
	// take few of the shared seats. kube-apiserver does not queue these requests with the requests of
	// other callers either: it authenticates the caller before it applies flow control. The flows of
	// Anonymous are source addresses.
	Anonymous
	// Levels is the number of levels.
	Levels
)

// rules contains the bounds of each level in a Pool, in percent of the Pool's seats.
var rules = [Levels]struct {
	name string
	// reserved is the share of the seats that only this level may take. Everyone needs reserved seats
	// because any caller may request leases, which have a higher priority. NewTokens needs them
	// because known callers have a higher priority.
	reserved int
	// most bounds the seats of the level, and its waiting requests. A bound of less than one seat or
	// request counts as one. 0: the level may take all seats that are not reserved for other levels.
	most int
}{
	SystemLeases: {name: "system-leases", reserved: 5},
	Leases:       {name: "leases", reserved: 5},
	System:       {name: "system", reserved: 15},
	Everyone:     {name: "everybody", reserved: 25},
	NewTokens:    {name: "new-tokens", reserved: 5},
	Anonymous:    {name: "anonymous", most: 5},
}

func (l Level) String() string { return rules[l].name }

// BySource reports whether the flows of the level are source addresses.
func (l Level) BySource() bool { return l >= NewTokens }

// levelsOf returns the budget levels of a Pool. A flow of a known caller may take at most half of
// the seats that its level may take. Other flows then need not wait until the requests of this flow
// end. A source address leaves as many seats free for other sources as it takes.
func levelsOf(seats int) []budget.Level {
	unreserved := seats
	for _, r := range rules {
		unreserved -= seats * r.reserved / 100
	}
	var all []budget.Level
	for level, r := range rules {
		reserved := seats * r.reserved / 100
		l := budget.Level{Name: r.name, Reserved: int64(reserved)}
		if r.most > 0 {
			l.Most = int64(max(seats*r.most/100, 1))
		}
		if l.Fair = Level(level).BySource(); !l.Fair {
			l.Share = int64(max((unreserved+reserved)/2, 1))
		}
		all = append(all, l)
	}
	return all
}

// Flow identifies the requests of one caller in one level. Free seats go to the flows in turn. In
// NewTokens and Anonymous, Caller is a source address.
type Flow struct {
	Level  Level
	Caller string // a key from UserKey or TokenKey, or a source address
	Token  string // set in NewTokens, where free seats also go to the tokens of one source in turn
}

func (f Flow) withoutToken() Flow { return Flow{Level: f.Level, Caller: f.Caller} }

// share returns the share of the flow in a budget of memory. Callers that run the cluster have no
// share, so they may use all of it.
func (f Flow) share() string {
	if f.Level == SystemLeases || f.Level == System {
		return ""
	}
	return f.Caller
}

// ReviewFlow returns the flow of a known caller's reviews and of its watches while they start.
func ReviewFlow(who user.Info) Flow {
	f := Flow{Level: Everyone, Caller: UserKey(who)}
	if IsSystem(who) {
		f.Level = System
	}
	return f
}

// UserKey returns the key of an authenticated user.
func UserKey(who user.Info) string { return "user " + who.GetName() }

// TokenKey returns the key of a caller that is not authenticated yet. id is the digest of its
// token.
func TokenKey(id [sha256.Size]byte) string { return tokenPrefix + string(id[:]) }

const tokenPrefix = "token "

// IsSystem reports whether a user runs the cluster. Administrators, nodes and the control plane run
// the cluster.
func IsSystem(who user.Info) bool {
	name := who.GetName()
	return name == "system:kube-scheduler" || name == "system:kube-controller-manager" ||
		strings.HasPrefix(name, "system:serviceaccount:kube-system:") ||
		slices.ContainsFunc(who.GetGroups(), func(g string) bool { return g == user.SystemPrivilegedGroup || g == user.NodesGroup })
}
