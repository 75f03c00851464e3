package review

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"

	"github.com/weirproject/weir/internal/core/request"
)

// HasImpersonation reports whether the headers contain impersonation headers.
func HasImpersonation(h http.Header) bool {
	for name := range h {
		if isImpersonation(name, nil) {
			return true
		}
	}
	return false
}

// DropImpersonation removes the impersonation headers.
func DropImpersonation(h http.Header) { maps.DeleteFunc(h, isImpersonation) }

func isImpersonation(name string, _ []string) bool { return strings.HasPrefix(name, "Impersonate-") }

// ErrUnnamed is returned for an impersonation without a user name. The proxy does not send such a
// request, because the upstream would accept it as a request of the proxy itself.
var ErrUnnamed = errors.New("the identity to forward has no name")

// survivesHeader reports whether the upstream receives a header value unchanged. HTTP/1.1 removes
// outer whitespace, so "system:masters " would become "system:masters".
func survivesHeader(value string) bool {
	return textproto.TrimString(value) == value && httpguts.ValidHeaderFieldValue(value)
}

// survivesAsExtraKey reports whether the upstream receives the key of an extra unchanged.
// kube-apiserver converts the key to lower case.
func survivesAsExtraKey(key string) bool {
	return !strings.ContainsFunc(key, func(r rune) bool { return r >= 'A' && r <= 'Z' })
}

// survivesForwarding reports whether an identity has a name and the upstream receives the identity
// unchanged.
func survivesForwarding(who user.Info) bool {
	values := slices.Concat([]string{who.GetName(), who.GetUID()}, who.GetGroups())
	for key, extra := range who.GetExtra() {
		if !survivesAsExtraKey(key) {
			return false
		}
		values = append(values, extra...)
	}
	return who.GetName() != "" && !slices.ContainsFunc(values, func(v string) bool { return !survivesHeader(v) })
}

// CheckImpersonation returns a 400 if the upstream might receive a value of an impersonation header
// changed. It is for all callers, with a token or a certificate.
func CheckImpersonation(h http.Header) error {
	for name, values := range h {
		if isImpersonation(name, nil) && slices.ContainsFunc(values, func(v string) bool { return !survivesHeader(v) }) {
			return apierrors.NewBadRequest("the value of the header " + name + " cannot be forwarded unchanged")
		}
	}
	return nil
}

// ImpersonationOf returns the impersonation with which the proxy forwards a caller that has a
// certificate. It leaves out system:authenticated, which the upstream adds. The upstream does not
// add it to a user in system:unauthenticated, so ImpersonationOf keeps it there: a front proxy may
// name both groups. For ServiceAccounts and nodes see fixGroups.
func ImpersonationOf(who user.Info) *transport.ImpersonationConfig {
	to := &transport.ImpersonationConfig{UserName: who.GetName(), UID: who.GetUID(), Groups: slices.Clone(who.GetGroups()), Extra: who.GetExtra()}
	if !slices.Contains(to.Groups, user.AllUnauthenticated) {
		to.Groups = slices.DeleteFunc(to.Groups, func(g string) bool { return g == user.AllAuthenticated })
	}
	if _, _, err := serviceaccount.SplitUsername(to.UserName); err == nil || isNodeName(to.UserName) {
		fixGroups(to)
	}
	return to
}

// isNodeName reports whether kube-apiserver may treat a user with this name as a node.
func isNodeName(name string) bool { return strings.HasPrefix(name, "system:node:") }

// fixGroups adds system:authenticated to an identity without groups, so that the upstream adds no
// other groups. Otherwise the upstream would add the groups of ServiceAccounts to a ServiceAccount,
// and system:nodes to a node if the proxy itself may impersonate nodes (KEP-5284). The upstream
// adds system:authenticated in any case.
func fixGroups(to *transport.ImpersonationConfig) {
	if len(to.Groups) == 0 {
		to.Groups = []string{user.AllAuthenticated}
	}
}

// AllowImpersonation returns nil if a caller with a certificate may impersonate the given identity
// (to). It sends the same reviews as kube-apiserver, for the verb impersonate on each part of the
// identity. In an outage it uses no earlier answer. The error is the Status with which to refuse
// the request. If the identity is a node without groups, AllowImpersonation adds a group to it, see
// fixGroups.
func (a *Authorizer) AllowImpersonation(ctx context.Context, who user.Info, to *transport.ImpersonationConfig) error {
	for _, q := range impersonationActions(to) {
		switch d := a.Allows(ctx, who, q, Options{}); {
		case d == Deny:
			return Forbidden(Attributes(q, who))
		case d != Allow:
			return d.Err()
		}
	}
	// The upstream adds the groups of a ServiceAccount for any impersonator. For a node, fixGroups
	// prevents the upstream from adding groups.
	if isNodeName(to.UserName) {
		fixGroups(to)
	}
	return nil
}

// impersonationActions returns one action for each review that an impersonation needs.
func impersonationActions(to *transport.ImpersonationConfig) []*request.Request {
	var out []*request.Request
	ask := func(group, resource, subresource, namespace, name string) {
		p := request.Path{Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name}
		if group != "" {
			p.Version = authenticationv1.SchemeGroupVersion.Version
		}
		out = append(out, &request.Request{Info: request.Info{Path: p, OfResource: true, Verb: "impersonate"}})
	}
	if namespace, name, err := serviceaccount.SplitUsername(to.UserName); err == nil {
		ask("", "serviceaccounts", "", namespace, name)
	} else {
		ask("", "users", "", "", to.UserName)
	}
	for _, g := range to.Groups {
		ask("", "groups", "", "", g)
	}
	for key, values := range to.Extra {
		for _, v := range values {
			ask(authenticationv1.GroupName, "userextras", key, "", v)
		}
	}
	if to.UID != "" {
		ask(authenticationv1.GroupName, "uids", "", "", to.UID)
	}
	return out
}

// ReadImpersonation returns the identity in the impersonation headers, or nil if they name none.
// Like kube-apiserver it ignores empty names and unknown headers. ReadImpersonation returns a 400
// if the headers do not name a user, or if the key of an extra would not reach the upstream
// unchanged.
func ReadImpersonation(h http.Header) (*transport.ImpersonationConfig, error) {
	to := &transport.ImpersonationConfig{
		UserName: h.Get(authenticationv1.ImpersonateUserHeader),
		UID:      h.Get(authenticationv1.ImpersonateUIDHeader),
		Groups:   h.Values(authenticationv1.ImpersonateGroupHeader),
		Extra:    map[string][]string{},
	}
	for name, values := range h {
		encoded, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		key, err := url.PathUnescape(strings.ToLower(encoded))
		if err != nil {
			key = strings.ToLower(encoded)
		}
		if !survivesAsExtraKey(key) {
			return nil, apierrors.NewBadRequest("the extra " + strconv.Quote(key) + " to impersonate is not in lower case")
		}
		to.Extra[key] = append(to.Extra[key], values...)
	}
	switch {
	case to.UserName != "":
		return to, nil
	case to.UID == "" && len(to.Groups) == 0 && len(to.Extra) == 0:
		return nil, nil
	}
	return nil, apierrors.NewBadRequest("requested to impersonate groups, a uid or extras without impersonating a user")
}
