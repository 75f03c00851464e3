package watchcache

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"

	"github.com/weirproject/weir/internal/resourceversion"
	"github.com/weirproject/weir/internal/shard"
)

// params holds the query parameters of a LIST or a WATCH. Parameters that kube-apiserver does not
// know are ignored. Requests with equal queries share one; it is immutable.
type params struct {
	watch          bool
	version        string // resourceVersion as sent: decimal, or empty
	rv             uint64 // version as a number
	match          metav1.ResourceVersionMatch
	limit          int64
	continueToken  string
	sendInitial    *bool
	allowBookmarks bool
	timeout        time.Duration // zero: not given
	labels         labels.Selector
	fields         fields.Selector
	shard          *shard.Selector // nil: all objects
	includeObject  string          // what rows of a Table include
}

// paramsCache caches parsed queries, because most are repeated.
var paramsCache = lru.New(maxParamsCache)

const (
	maxParamsCache = 4096
	maxCachedQuery = 1 << 10 // bytes of a cached query
)

func cachedParams(u *url.URL) (*params, error) {
	if p, ok := paramsCache.Get(u.RawQuery); ok {
		return p.(*params), nil
	}
	p, err := parseParams(u.Query())
	if err == nil && len(u.RawQuery) <= maxCachedQuery {
		paramsCache.Add(u.RawQuery, p)
	}
	return p, err
}

// IsWatch reports whether the query asks for a WATCH rather than a LIST.
func IsWatch(q url.Values) bool {
	return parseBool(q, "watch")
}

func parseParams(q url.Values) (*params, error) {
	var o metainternalversion.ListOptions
	if err := scheme.ParameterCodec.DecodeParameters(q, metav1.SchemeGroupVersion, &o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	metainternalversion.SetListOptionsDefaults(&o, true)
	if errs := validation.ValidateListOptions(&o, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	p := &params{
		watch: o.Watch, version: o.ResourceVersion, match: o.ResourceVersionMatch, limit: o.Limit, continueToken: o.Continue,
		sendInitial: o.SendInitialEvents, allowBookmarks: o.AllowWatchBookmarks,
		labels: o.LabelSelector, fields: o.FieldSelector, // nil: everything
		includeObject: q.Get("includeObject"),
	}
	var err error
	if p.rv, err = parseVersionParam(p.version); err != nil {
		return nil, err
	}
	if o.ShardSelector != "" {
		if p.shard, err = shard.Parse(o.ShardSelector); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if o.TimeoutSeconds != nil {
		p.timeout = time.Duration(min(max(*o.TimeoutSeconds, 0), maxTimeoutSeconds)) * time.Second
	}
	if !p.watch && p.continueToken != "" && p.version != "" && p.version != "0" {
		return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	return p, nil
}

// parseVersionParam parses the parameter resourceVersion. Empty is 0.
func parseVersionParam(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	rv, err := resourceversion.Parse(s)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid value %q for resourceVersion: %v", s, err))
	}
	return rv, nil
}

// maxTimeoutSeconds is one year. It keeps the conversion to a duration from overflowing.
const maxTimeoutSeconds = 366 * 24 * 3600

// parseBool parses a flag as kube-apiserver does: present means true, unless it is "false" or "0".
func parseBool(q url.Values, name string) bool {
	if !q.Has(name) {
		return false
	}
	s := q.Get(name)
	return s != "0" && !strings.EqualFold(s, "false")
}

// Query holds the parsed parameters of a LIST or a WATCH. A server that authorizes a request and
// then answers it uses one Query for both. It is immutable and safe for concurrent use.
type Query struct{ params *params }

// ParseQuery parses the parameters as kube-apiserver does. The error is the Status that
// kube-apiserver would return.
func ParseQuery(q url.Values) (Query, error) {
	p, err := parseParams(q)
	return Query{p}, err
}

// Watch reports whether the query asks for a WATCH rather than a LIST.
func (q Query) Watch() bool { return q.params.watch }

// Labels returns the label selector, nil for everything.
func (q Query) Labels() labels.Selector { return q.params.labels }

// Fields returns the field selector, nil for everything.
func (q Query) Fields() fields.Selector { return q.params.fields }
