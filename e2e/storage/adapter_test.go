package storage

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"
)

// adapter is the storage under test. Its reads are requests that client-go sends to the watch
// cache. Its writes go to the embedded Interface, which is kube-apiserver's store on etcd.
type adapter struct {
	apistorage.Interface
	client     rest.Interface
	feed       *feed
	watches    *watches
	namespaced bool
	// visible makes Create wait until the watch cache contains the created object. Some suites read
	// the object immediately afterwards at resourceVersion "0". Such a read need not return the
	// object. kube-apiserver's tests of its own cache have the same problem.
	visible bool
}

// Create calls kube-apiserver's store. If visible is set, it waits until the watch cache contains
// the object.
func (a *adapter) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	err := a.Interface.Create(ctx, key, obj, out, ttl)
	if err != nil || !a.visible {
		return err
	}
	rv, err := a.Versioner().ObjectResourceVersion(out)
	if err != nil {
		return err
	}
	return a.feed.Wait(ctx, rv)
}

// current waits until the watch cache contains everything that etcd contained when current was
// called. A consistent read requires that. The proxy also waits in this way before it answers a
// consistent read.
func (a *adapter) current(ctx context.Context) error {
	rv, err := a.GetCurrentResourceVersion(ctx)
	if err != nil {
		return err
	}
	return a.feed.Wait(ctx, rv)
}

// Get sends a GET to the watch cache.
func (a *adapter) Get(ctx context.Context, key string, opts apistorage.GetOptions, out runtime.Object) error {
	if opts.ResourceVersion == "" {
		if err := a.current(ctx); err != nil {
			return err
		}
	}
	namespace, name := a.split(key)
	var pod examplev1.Pod
	req := a.request(namespace).Name(name)
	if opts.ResourceVersion != "" {
		req.Param("resourceVersion", opts.ResourceVersion)
	}
	err := req.Do(ctx).Into(&pod)
	switch {
	case apierrors.IsNotFound(err) && opts.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	case apierrors.IsNotFound(err):
		return apistorage.NewKeyNotFoundError(key, 0)
	case err != nil:
		return err
	}
	return scheme.Convert(&pod, out, nil)
}

// GetList sends a LIST to the watch cache. It converts continue tokens between the watch cache's
// form and kube-apiserver's.
func (a *adapter) GetList(ctx context.Context, key string, opts apistorage.ListOptions, out runtime.Object) error {
	if opts.ResourceVersion == "" && (opts.Predicate.Continue == "" || isInconsistent(opts.Predicate.Continue)) {
		if err := a.current(ctx); err != nil {
			return err
		}
	}
	prefix := a.prefix(key)
	req := a.collection(key, opts)
	if opts.ResourceVersionMatch != "" {
		req.Param("resourceVersionMatch", string(opts.ResourceVersionMatch))
	}
	if limit := opts.Predicate.Limit; limit > 0 {
		req.Param("limit", strconv.FormatInt(limit, 10))
	}
	if token := opts.Predicate.Continue; token != "" {
		ours, err := ownToken(token)
		if err != nil {
			return err
		}
		req.Param("continue", ours)
	}
	var pods examplev1.PodList
	if err := req.Do(ctx).Into(&pods); err != nil {
		return withTheirToken(err, prefix)
	}
	list := out.(*example.PodList)
	if err := scheme.Convert(&pods, list, nil); err != nil {
		return err
	}
	if list.Items == nil {
		list.Items = []example.Pod{}
	}
	if n := len(list.Items); list.Continue != "" && n > 0 {
		last := &list.Items[n-1]
		list.Continue = pageToken(list.Continue, prefix, objectKey(last.Namespace, last.Name))
	}
	return nil
}

// Watch sends a WATCH to the watch cache.
func (a *adapter) Watch(ctx context.Context, key string, opts apistorage.ListOptions) (watch.Interface, error) {
	if opts.ResourceVersion == "" && opts.SendInitialEvents != nil {
		if err := a.current(ctx); err != nil {
			return nil, err
		}
	}
	req := a.collection(key, opts).Param("watch", "true")
	if opts.Predicate.AllowWatchBookmarks {
		req.Param("allowWatchBookmarks", "true")
	}
	if initial := opts.SendInitialEvents; initial != nil { // a request needs both parameters or none
		req.Param("sendInitialEvents", strconv.FormatBool(*initial)).Param("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	}
	if end, ok := ctx.Deadline(); ok {
		req.Param("timeoutSeconds", strconv.Itoa(max(1, int(math.Ceil(time.Until(end).Seconds())))))
	}
	return a.watches.begin(ctx, req)
}

// collection returns a LIST or WATCH request for the objects of a key. If the key is of one object,
// the request has a field selector with the object's name. Clients of kube-apiserver send the same
// request.
func (a *adapter) collection(key string, opts apistorage.ListOptions) *rest.Request {
	namespace, selectors := a.prefix(key), []fields.Selector{opts.Predicate.Field}
	if !opts.Recursive {
		var name string
		namespace, name = a.split(key)
		selectors = append(selectors, fields.OneTermEqualSelector("metadata.name", name))
	}
	namespace = strings.TrimSuffix(namespace, "/")
	// A suite may use any start of a key as a prefix. If the prefix cannot be the name of a namespace,
	// the request has a field selector instead of a namespace in its path.
	if namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		selectors = append(selectors, fields.OneTermEqualSelector("metadata.namespace", namespace))
		namespace = ""
	}
	req := a.request(namespace)
	if opts.ResourceVersion != "" {
		req.Param("resourceVersion", opts.ResourceVersion)
	}
	if l := opts.Predicate.Label; l != nil && !l.Empty() {
		req.Param("labelSelector", l.String())
	}
	var chosen []string
	for _, s := range selectors {
		if s != nil && !s.Empty() {
			chosen = append(chosen, s.String())
		}
	}
	if len(chosen) > 0 {
		req.Param("fieldSelector", strings.Join(chosen, ","))
	}
	return req
}

// request returns a request for pods. The client does not retry it, because the suites expect the
// errors.
func (a *adapter) request(namespace string) *rest.Request {
	return a.client.Verb(http.MethodGet).MaxRetries(0).NamespaceIfScoped(namespace, namespace != "").Resource("pods")
}

// prefix returns the prefix of the keys below a key, without resourcePrefix. If all keys are below
// the key, the prefix is empty.
func (a *adapter) prefix(key string) string {
	rel := strings.TrimPrefix(key, resourcePrefix)
	if rel == "" || strings.HasSuffix(rel, "/") {
		return rel
	}
	return rel + "/"
}

// split returns the namespace and the name in an object's key.
func (a *adapter) split(key string) (namespace, name string) {
	rel := strings.TrimPrefix(key, resourcePrefix)
	if i := strings.LastIndexByte(rel, '/'); i >= 0 && a.namespaced {
		return rel[:i], rel[i+1:]
	}
	return "", rel
}

func objectKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
