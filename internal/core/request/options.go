package request

import (
	"fmt"
	"math"
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

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/shard"
)

// Options contains the query parameters of a GET, a LIST or a WATCH. It is immutable and safe for
// concurrent use.
type Options struct {
	Watch           bool
	ResourceVersion string // as sent, an integer or ""
	RV              uint64 // ResourceVersion as a number
	Match           metav1.ResourceVersionMatch
	Limit           int64
	Continue        *ContinueToken // nil for the first page of a LIST
	SendInitial     *bool
	AllowBookmarks  bool
	Timeout         time.Duration   // 0 means that the query has no timeout
	Labels          labels.Selector // nil selects all objects
	Fields          fields.Selector // nil selects all objects
	LabelText       string          // Labels as sent
	FieldText       string          // Fields as sent
	Shard           *shard.Selector // nil selects all objects
	IncludeObject   string          // which part of the object a Table's rows include
}

// parameter describes a query parameter that Strict accepts.
type parameter struct {
	ofGet bool // whether a GET may have it, and not only a LIST or WATCH
	// strict reports whether kube-apiserver certainly reads a value in the same way as this package.
	// For a selector, it also reports whether it costs little to match objects against the selector.
	// nil means that all values that Parse accepts are strict.
	strict func(value string) bool
}

// parameters are the query parameters that Strict accepts. Parse ignores the parameter timeout.
var parameters = map[string]parameter{
	"allowWatchBookmarks":  {},
	"continue":             {},
	"fieldSelector":        {strict: isStrictFieldSelector},
	"labelSelector":        {strict: isStrictSelector},
	"limit":                {},
	"resourceVersion":      {ofGet: true, strict: isStrictVersion},
	"resourceVersionMatch": {},
	"sendInitialEvents":    {},
	"shardSelector":        {strict: isStrictSelector},
	"timeout":              {ofGet: true, strict: isStrictTimeout},
	"timeoutSeconds":       {},
	"watch":                {},
}

// isStrictQuery reports whether all parameters are known and occur once, with strict values.
func isStrictQuery(q url.Values, get bool) bool {
	for name, values := range q {
		p, known := parameters[name]
		if !known || get && !p.ofGet || len(values) != 1 || p.strict != nil && !p.strict(values[0]) {
			return false
		}
	}
	return true
}

func isStrictSelector(text string) bool { return len(text) <= MaxSelector }

func isStrictFieldSelector(text string) bool {
	return isStrictSelector(text) && strings.Count(text, ",") < MaxFieldRequirements
}

// isStrictVersion reports whether kube-apiserver accepts a resourceVersion. Zero must be written as
// "0", because kube-apiserver compares the text with "0" in some places.
func isStrictVersion(text string) bool {
	rv, err := resourceversion.Parse(text)
	return text == "" || err == nil && (rv > 0 || text == "0")
}

// isStrictTimeout reports whether text is "" or a timeout of at least a second that kube-apiserver
// accepts. In less time, a server could hardly respond.
func isStrictTimeout(text string) bool {
	d, err := time.ParseDuration(text)
	return text == "" || err == nil && d >= time.Second
}

// isStrictWatchTimeout reports whether a WATCH with this timeoutSeconds lasts at all.
// kube-apiserver ends it immediately if the value is negative or overflows a duration.
func isStrictWatchTimeout(text string) bool {
	seconds, _ := strconv.ParseInt(text, 10, 64)
	return seconds >= 0 && seconds <= math.MaxInt64/int64(time.Second)
}

// maxTimeoutSeconds is one year. A larger value could overflow a duration.
const maxTimeoutSeconds = 366 * 24 * 3600

// ParseOptions parses the query of a LIST or a WATCH as kube-apiserver does. It ignores unknown
// parameters. The error is the Status that kube-apiserver would return.
func ParseOptions(q url.Values) (*Options, error) {
	var l metainternalversion.ListOptions
	if err := scheme.ParameterCodec.DecodeParameters(q, metav1.SchemeGroupVersion, &l); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	metainternalversion.SetListOptionsDefaults(&l, true)
	if errs := validation.ValidateListOptions(&l, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	o, err := parseGetOptions(q)
	if err != nil {
		return nil, err
	}
	o.Watch, o.Match, o.Limit, o.SendInitial, o.AllowBookmarks = l.Watch, l.ResourceVersionMatch, l.Limit, l.SendInitialEvents, l.AllowWatchBookmarks
	o.Labels, o.Fields, o.LabelText, o.FieldText = l.LabelSelector, l.FieldSelector, q.Get("labelSelector"), q.Get("fieldSelector")
	if l.TimeoutSeconds != nil {
		o.Timeout = time.Duration(min(max(*l.TimeoutSeconds, 0), maxTimeoutSeconds)) * time.Second
	}
	// The ListOptions of the oldest supported apimachinery lack ShardSelector.
	if text := q.Get("shardSelector"); text != "" {
		if o.Shard, err = shard.Parse(text); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if l.Watch || l.Continue == "" {
		return o, nil
	}
	if o.ResourceVersion != "" && o.ResourceVersion != "0" {
		return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	if o.Continue, err = ParseContinueToken(l.Continue); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}

// parseGetOptions parses the query parameters that a GET has. The error is the Status that
// kube-apiserver would return.
func parseGetOptions(q url.Values) (*Options, error) {
	o := &Options{ResourceVersion: q.Get("resourceVersion"), IncludeObject: q.Get("includeObject")}
	if o.ResourceVersion == "" {
		return o, nil
	}
	var err error
	if o.RV, err = resourceversion.Parse(o.ResourceVersion); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid value %q for resourceVersion: %v", o.ResourceVersion, err))
	}
	return o, nil
}

// HasSelectors reports whether the query selects objects by labels or fields.
func (o *Options) HasSelectors() bool {
	return o.Labels != nil && !o.Labels.Empty() || o.Fields != nil && !o.Fields.Empty()
}

// WantsInitialEvents reports whether the query contains sendInitialEvents=true.
func (o *Options) WantsInitialEvents() bool { return o.SendInitial != nil && *o.SendInitial }

// StartsWithState reports whether a WATCH starts with ADDED events for the current objects.
func (o *Options) StartsWithState() bool {
	return o.WantsInitialEvents() || o.SendInitial == nil && o.RV == 0
}

// AnyVersion reports whether a server may serve a LIST or a GET from any state, however old: the
// resourceVersion is 0.
func (o *Options) AnyVersion() bool { return o.ResourceVersion != "" && o.RV == 0 }

// Consistent reports whether the response must be as new as kube-apiserver's storage: the query has
// neither a resourceVersion nor a continue token. It also returns true for a WATCH with such a
// query. kube-apiserver serves such a WATCH consistently since Kubernetes 1.34, unless it has
// sendInitialEvents.
func (o *Options) Consistent() bool { return o.ResourceVersion == "" && o.Continue == nil }

// ExactVersion returns the resourceVersion of the only state from which a LIST may be served, or
// after which a WATCH resumes. It returns 0 if the request does not require one exact version.
func (o *Options) ExactVersion() uint64 {
	switch {
	case o.Watch && !o.WantsInitialEvents(),
		o.Match == metav1.ResourceVersionMatchExact,
		o.Match == "" && o.Limit > 0:
		return o.RV
	}
	return 0
}

// MinVersion returns the minimum resourceVersion of the response's state; 0 means any.
func (o *Options) MinVersion() uint64 {
	switch {
	case o.Continue != nil:
		return o.Continue.MinVersion()
	case o.Watch && !o.WantsInitialEvents():
		return 0
	}
	return o.RV
}
