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
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/shard"
)

// Options holds the query parameters of a GET, a LIST or a WATCH. It is immutable and safe for
// concurrent use.
type Options struct {
	Watch           bool
	ResourceVersion string // as sent: decimal, or empty
	RV              uint64 // ResourceVersion as a number
	Match           metav1.ResourceVersionMatch
	Limit           int64
	Continue        *ContinueToken // nil: a LIST from its first page
	SendInitial     *bool
	AllowBookmarks  bool
	Timeout         time.Duration   // 0: none given
	Labels          labels.Selector // nil: everything
	Fields          fields.Selector // nil: everything
	LabelText       string          // Labels as sent
	FieldText       string          // Fields as sent
	Shard           *shard.Selector // nil: all objects
	IncludeObject   string          // what rows of a Table include
}

// strictGet and strictList are the parameters that Strict knows of a GET, and of a LIST or WATCH.
// The timeout does not matter to an answer that is sent immediately.
var (
	strictGet  = sets.New("resourceVersion", "timeout")
	strictList = strictGet.Union(sets.New("watch", "resourceVersionMatch", "limit", "continue", "labelSelector", "fieldSelector",
		"timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "shardSelector"))
)

// isStrictQuery reports whether all parameters are known and none is repeated, and their values
// need no interpretation by kube-apiserver.
func isStrictQuery(q url.Values, known sets.Set[string]) bool {
	for name, values := range q {
		if !known.Has(name) || len(values) != 1 || strings.HasSuffix(name, "Selector") && len(values[0]) > MaxSelector {
			return false
		}
	}
	return strings.Count(q.Get("fieldSelector"), ",") < MaxFieldRequirements && isStrictVersion(q.Get("resourceVersion")) &&
		isStrictTimeout(q.Get("timeout"))
}

// isStrictVersion reports whether kube-apiserver accepts the resourceVersion. It compares the text
// with "0" in some places, so other ways to write zero are not strict.
func isStrictVersion(text string) bool {
	rv, err := resourceversion.Parse(text)
	return text == "" || err == nil && (rv > 0 || text == "0")
}

// isStrictTimeout reports whether kube-apiserver accepts the timeout, and it leaves time to answer.
func isStrictTimeout(text string) bool {
	d, err := time.ParseDuration(text)
	return text == "" || err == nil && d >= time.Second
}

// isStrictWatchTimeout reports whether kube-apiserver does not end a WATCH with such a
// timeoutSeconds immediately, because it is negative or overflows a duration.
func isStrictWatchTimeout(text string) bool {
	seconds, _ := strconv.ParseInt(text, 10, 64)
	return seconds >= 0 && seconds <= math.MaxInt64/int64(time.Second)
}

// maxTimeoutSeconds is one year. It keeps the conversion to a duration from overflowing.
const maxTimeoutSeconds = 366 * 24 * 3600

// ParseOptions parses the query of a LIST or a WATCH as kube-apiserver does. It ignores parameters
// that kube-apiserver does not know. The error is the Status that kube-apiserver would return.
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
	if l.ShardSelector != "" {
		if o.Shard, err = shard.Parse(l.ShardSelector); err != nil {
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

// parseGetOptions parses the query of a GET.
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

// WantsInitialEvents reports whether the query demands that a WATCH starts with the state.
func (o *Options) WantsInitialEvents() bool { return o.SendInitial != nil && *o.SendInitial }

// StartsWithState reports whether a WATCH starts with the state, as ADDED events.
func (o *Options) StartsWithState() bool {
	return o.WantsInitialEvents() || o.SendInitial == nil && o.RV == 0
}

// AnyVersion reports whether any state may answer a LIST or a GET, however old.
func (o *Options) AnyVersion() bool { return o.ResourceVersion != "" && o.RV == 0 }

// Consistent reports whether the answer must be as new as kube-apiserver's storage. Since 1.34, a
// WATCH without a resourceVersion is also consistent without sendInitialEvents.
func (o *Options) Consistent() bool { return o.ResourceVersion == "" && o.Continue == nil }

// ExactVersion returns the resourceVersion of the one state that may answer a LIST, or that a WATCH
// resumes from. It returns 0 if there is no such state.
func (o *Options) ExactVersion() uint64 {
	switch {
	case o.Watch && !o.WantsInitialEvents(),
		o.Match == metav1.ResourceVersionMatchExact,
		o.Match == "" && o.Limit > 0:
		return o.RV
	}
	return 0
}

// MinVersion returns the oldest resourceVersion that may answer; 0: any.
func (o *Options) MinVersion() uint64 {
	switch {
	case o.Continue != nil:
		return o.Continue.MinVersion()
	case o.Watch && !o.WantsInitialEvents():
		return 0
	}
	return o.RV
}
