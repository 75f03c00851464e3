package watchcache

import (
	"fmt"
	"net/url"
	"strconv"
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

	"github.com/weirproject/weir/internal/shard"
)

// params are the query parameters of a LIST or a WATCH. What kube-apiserver does not know it ignores, and so do we. They are shared by the
// requests that have the same, and nobody may change them.
type params struct {
	watch          bool
	version        string // resourceVersion as it came; a decimal number or empty
	rv             uint64 // the same as a number
	match          metav1.ResourceVersionMatch
	limit          int64
	continueToken  string
	sendInitial    *bool
	allowBookmarks bool
	timeout        time.Duration // zero: not given
	labels         labels.Selector
	fields         fields.Selector
	shard          *shard.Selector // nil: every object
	includeObject  string          // of a Table's rows
}

// queries remembers the parameters of queries, which mostly come again.
var queries = lru.New(maxQueries)

const (
	maxQueries = 4096
	maxQuery   = 1 << 10 // bytes of a query that is remembered
)

func paramsOf(u *url.URL) (*params, error) {
	if p, ok := queries.Get(u.RawQuery); ok {
		return p.(*params), nil
	}
	p, err := parseParams(u.Query())
	if err == nil && len(u.RawQuery) <= maxQuery {
		queries.Add(u.RawQuery, p)
	}
	return p, err
}

// IsWatch says whether the query asks for a WATCH rather than a LIST.
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

// parseVersionParam reads the parameter resourceVersion, of a GET too; empty is 0.
func parseVersionParam(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	rv, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid value %q for resourceVersion: %v", s, err))
	}
	return rv, nil
}

// maxTimeoutSeconds keeps the conversion to a duration from overflowing: a year.
const maxTimeoutSeconds = 366 * 24 * 3600

// parseBool reads a flag as kube-apiserver does: present means true, unless it is "false" or "0".
func parseBool(q url.Values, name string) bool {
	if !q.Has(name) {
		return false
	}
	s := q.Get(name)
	return s != "0" && !strings.EqualFold(s, "false")
}
