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
	// SystemLeases is for coordination.k8s.io by callers that run the cluster: a late renewal costs
	// a leader its office, and a node its pods. Others cannot take these seats, however many leases
	// they ask for.
	SystemLeases Level = iota
	// Leases is for coordination.k8s.io by all others.
	Leases
	// System is for everything else by callers that run the cluster.
	System
	// Everyone is for all other callers that are known.
	Everyone
	// NewTokens is for tokens that the proxy does not know yet: those of all callers after a start,
	// and made-up ones. Its flows are sources, since any client can make up a token.
	NewTokens
	// Anonymous is for requests without a credential. It has no seats of its own, and few of the
	// shared ones. kube-apiserver does not let these requests wait with others either: it knows the
	// caller before it controls the flow. Its flows are sources.
	Anonymous
	// Levels is the number of levels.
	Levels
)

// rules has what each level may have of a Pool, in percent of its seats.
var rules = [Levels]struct {
	name string
	// reserved is what only this level may take. Everyone has some too, because any caller may
	// request leases, which come first; and so have new tokens, since known callers come before
	// them.
	reserved int
	// most bounds the seats of the level, and its places to wait, to one at the least. 0: it may
	// have all that others have not reserved.
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

// BySource reports whether the flows of a level are sources.
func (l Level) BySource() bool { return l >= NewTokens }

// isSystem reports whether the level is for callers that run the cluster.
func (l Level) isSystem() bool { return l == SystemLeases || l == System }

// levelsOf returns the levels of a Pool. A flow of known callers has at most half of the seats that
// its level may take, so that others need not wait for its requests to end. A source leaves others
// as many seats as it has.
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

// Flow identifies the requests of one caller in one level, which take turns with other flows. The
// Caller of NewTokens and Anonymous is a source address.
type Flow struct {
	Level  Level
	Caller string // a key by UserKey or TokenKey, or a source
	Token  string // in NewTokens: the tokens of one source take turns, too
}

// withoutToken returns the flow that the tokens of a source share.
func (f Flow) withoutToken() Flow { return Flow{Level: f.Level, Caller: f.Caller} }

// ReviewFlow returns the flow of the reviews and the beginning watches of a caller.
func ReviewFlow(who user.Info) Flow {
	f := Flow{Level: Everyone, Caller: UserKey(who)}
	if IsSystem(who) {
		f.Level = System
	}
	return f
}

// UserKey returns the key of a known user.
func UserKey(who user.Info) string { return "user " + who.GetName() }

// TokenKey returns the key of a caller of whom only the token is known, by its digest.
func TokenKey(id [sha256.Size]byte) string { return tokenPrefix + string(id[:]) }

const tokenPrefix = "token "

// IsSystem reports whether a user runs the cluster: administrators, nodes and the control plane.
func IsSystem(who user.Info) bool {
	name := who.GetName()
	return name == "system:kube-scheduler" || name == "system:kube-controller-manager" ||
		strings.HasPrefix(name, "system:serviceaccount:kube-system:") ||
		slices.ContainsFunc(who.GetGroups(), func(g string) bool { return g == user.SystemPrivilegedGroup || g == user.NodesGroup })
}
