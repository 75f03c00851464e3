package debug

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/registry"
)

// problem is a reason why an informer, or a resource of a proxy, needs attention.
type problem struct {
	Kind kind   `json:"kind"`
	Text string `json:"text"`
	Hint string `json:"hint"` // what the user can do
}

// kind is the kind of a problem. The page shows informers in the order of the kinds of their
// problems.
type kind string

const (
	kindError kind = "error"    // a request fails
	kindAge   kind = "stale"    // the server has sent nothing for too long, or no complete list
	kindLag   kind = "behind"   // a handler does not keep up
	kindStuck kind = "stuck"    // a handler does not return
	kindPanic kind = "panicked" // a handler panicked recently
)

var kinds = []kind{kindError, kindAge, kindLag, kindStuck, kindPanic}

// When an informer needs attention.
const (
	// maxAge exceeds the interval at which a server sends bookmarks. The alert WeirInformerStale has
	// the same limit.
	maxAge = 3 * time.Minute
	// maxUnsynced limits how long an informer may wait for its first objects without an error.
	maxUnsynced = time.Minute
	// maxCatchUp limits how long a handler probably needs to receive all changes.
	maxCatchUp = 30 * time.Second
	// maxCall limits the duration of a handler's call.
	maxCall = 30 * time.Second
	// panicsFor is how long a panic needs attention.
	panicsFor = 15 * time.Minute
)

// standing returns the state that a row shows, in one word.
func standing(problems []problem, synced bool) string {
	switch {
	case len(problems) > 0:
		return string(problems[0].Kind)
	case synced:
		return "healthy"
	}
	return "syncing"
}

// compareProblems orders rows: those with a problem first, by kind.
func compareProblems(a, b []problem) int {
	rank := func(all []problem) int {
		if len(all) == 0 {
			return len(kinds)
		}
		return slices.Index(kinds, all[0].Kind)
	}
	return rank(a) - rank(b)
}

// ofReflector returns the problem of a reflector, if it has one.
func ofReflector(now time.Time, s reflector.Status) []problem {
	scope := strings.TrimSpace(s.Namespace + " " + s.Selector)
	if scope != "" {
		scope += ": "
	}
	switch {
	case s.Err != nil:
		return []problem{{kindError, scope + s.Err.Error(), hint(s.Err)}}
	case s.Heard.IsZero() && s.Phase != reflector.Starting && now.Sub(s.Since) > maxUnsynced:
		return []problem{{kindAge, scope + "the server has sent nothing since the start", "Check that the API server answers: kubectl get --raw /readyz. If the state says that the informer waits for its turn, many informers list at the same time."}}
	case !s.Heard.IsZero() && now.Sub(s.Heard) > maxAge:
		return []problem{{kindAge, fmt.Sprintf("%sthe server has sent nothing for %s", scope, now.Sub(s.Heard).Round(time.Second)), "Objects may be old. Check the API server and the load balancers in front of it: a bookmark should arrive every minute."}}
	}
	return nil
}

// ofHandler returns the problems of a handler. panicked reports whether it has panicked recently.
func ofHandler(h handlerState, panicked bool) (all []problem) {
	done, spent := h.Events, h.CallSeconds-h.BusySeconds
	if h.Key != "" {
		done--
	}
	if done > 0 {
		if wait := seconds(float64(h.Lag) * spent / float64(done)); wait > maxCatchUp {
			all = append(all, problem{kindLag, fmt.Sprintf("handler %s is %s changes behind, about %s of work", h.Name, humanize.Count(int64(h.Lag)), humanize.Duration(wait)),
				"The handler is called for one event at a time. Let it only add the key to a work queue, and do the work in several workers."})
		}
	}
	if seconds(h.BusySeconds) > maxCall {
		all = append(all, problem{kindStuck, fmt.Sprintf("handler %s has been in one call for %s: %s %s", h.Name, seconds(h.BusySeconds).Round(time.Second), h.Doing, h.Key),
			"The handler receives no other event until the call returns. The goroutine stack below shows where it waits: often a lock, a full channel, or a request without a timeout."})
	}
	if panicked {
		all = append(all, problem{kindPanic, fmt.Sprintf("handler %s has panicked; panics so far: %d", h.Name, h.Panics),
			"The handler has lost the events at which it panicked. The process's log contains the stacks."})
	}
	return all
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// ofResource returns the problem of a resource of a proxy, if it has one. A resource that is cached
// on demand has no problem if it cannot be cached: the proxy forwards requests for it.
func ofResource(r registry.ProxyResource) []problem {
	advice, known := standingHints[r.State]
	if !known || !r.Configured && r.State != "behind" {
		return nil
	}
	text := "not cached, so requests are forwarded: " + r.State
	if r.State == "behind" {
		text = "cached, but does not follow the upstream"
	}
	if r.Error != "" {
		text += ": " + r.Error
	}
	return []problem{{kindError, text, advice}}
}

// standingHints are the hints for states in which a configured resource of a proxy needs attention.
var standingHints = map[string]string{
	"behind":     "Clients may read older objects. If this lasts, check the upstream API server and the network to it.",
	"failing":    "The upstream answers with errors that may pass, for example because a conversion webhook is broken. Read the resource with kubectl to see the error.",
	"missing":    "The upstream does not serve the resource. Check the name (kubectl api-resources), or install its CustomResourceDefinition.",
	"forbidden":  "The proxy's own user may not list and watch the resource, or may not read API services. Compare its ClusterRole with deploy/base.",
	"aggregated": "Another API server serves the resource, and the proxy caches only those of kube-apiserver. Remove the resource from the proxy's list.",
	"rejected":   "The upstream rejects the proxy's requests, or the proxy cannot decode the answers. Check that the resource supports list and watch.",
}

// hint returns what a user can do about the error of a reflector.
func hint(err error) string {
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return h.text
		}
	}
	return "The informer retries automatically."
}

var hints = []struct {
	err  error
	text string
}{
	{reflector.ErrUnauthorized, "The credentials are missing, wrong or expired. Check the kubeconfig, or the mounted service account token and its rotation."},
	{reflector.ErrForbidden, "Give the user in the error the verbs list and watch on the resource. Check with: kubectl auth can-i list RESOURCE --as USER."},
	{reflector.ErrUnknownResource, "The server does not serve the resource. Install its CustomResourceDefinition, or check group and version with: kubectl api-resources."},
	{reflector.ErrMethodNotAllowed, "The resource supports no list or watch. Read it with GET, or choose another resource."},
	{reflector.ErrRejected, "The request is invalid. The most frequent reason is a field selector that the resource does not support."},
	{reflector.ErrTooManyRequests, "The server reduces its load. The informer waits for as long as the server asks. If this lasts, find the clients that cause the load: weir doctor."},
	{reflector.ErrExpired, "The informer lists again automatically. If this repeats, changes arrive faster than the server keeps them, or the watch is too slow."},
	{reflector.ErrServerBehind, "The server is older than the informer's objects, for example a replica that lags. The informer waits for it. Check the health of etcd."},
	{reflector.ErrWentBack, "The server was restored from a backup, or it is another server. The informer adopts its state. Check that this was intended."},
	{reflector.ErrServer, "Check the log of the API server, or of the load balancer in front of it."},
	{reflector.ErrUnreachable, "Check the address, DNS, network policies and certificates: kubectl get --raw /readyz from the same place."},
	{reflector.ErrMalformed, "An object or an answer is damaged, or something between the informer and the server changes bodies. The error names the position."},
	{reflector.ErrEncoding, "The server, or a proxy in front of it, ignores the requested encoding. Set the encoding to JSON."},
	{reflector.ErrNoBookmark, "The server does not end its initial events. The informer falls back to LIST; set the mode to list to avoid the delay."},
	{reflector.ErrEnded, "Something ends watches immediately: often a load balancer or service mesh with a short timeout for streams."},
	{reflector.ErrSilent, "The watch is open but silent, and probes fail. Check the network, and load balancers that drop idle connections."},
}
