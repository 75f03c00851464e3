package doctor

import (
	"fmt"
	"strings"
)

// gvr is the resource as a literal of Go.
func (a api) gvr() string {
	version := "version" // which nobody told
	if a.version != "" {
		version = fmt.Sprintf("%q", a.version)
	}
	return fmt.Sprintf("schema.GroupVersionResource{Group: %q, Version: %s, Resource: %q}", a.group, version, a.resource)
}

// client is client-go's client of the resource in all namespaces.
func (a api) client() string {
	if a.method == "" {
		return fmt.Sprintf("client.Resource(%s)", a.gvr())
	}
	namespaces := `""`
	if a.cluster {
		namespaces = ""
	}
	return fmt.Sprintf("client.%s%s().%s(%s)", a.clientGroup(), title(a.version), a.method, namespaces)
}

// informer is what a factory of client-go's has of the resource: its Informer and its Lister.
func (a api) informer() string {
	if a.method == "" {
		return fmt.Sprintf("factory.ForResource(%s)", a.gvr())
	}
	return fmt.Sprintf("factory.%s().%s().%s()", a.clientGroup(), title(a.version), a.method)
}

// lister reads one namespace of what an informer holds.
func (a api) lister() string {
	of := ""
	switch {
	case a.method == "":
		of = ".ByNamespace(namespace)"
	case !a.cluster:
		of = fmt.Sprintf(".%s(namespace)", a.method)
	}
	return a.informer() + ".Lister()" + of + ".List(selector)"
}

// kubectl is how kubectl gets the resource of all namespaces.
func (a api) kubectl() string {
	name := strings.TrimSuffix(a.resource+"."+a.group, ".")
	if a.cluster {
		return "kubectl get " + name
	}
	return "kubectl get " + name + " --all-namespaces"
}

// Change returns the line to write where somebody does with a resource what is of this kind, in the
// words of client-go; empty: it is no line of the client. The resource has kubectl's name; the
// version is empty where nobody told it.
func Change(kind, resource, version string) string {
	a := apiOf(resource, version)
	switch kind {
	case KindPolling:
		return fmt.Sprintf("%s.Lister().List(selector) // in the place of %s.List(ctx, options)", a.informer(), a.client())
	case KindResync:
		return a.lister() + " // in the handler, in the place of a LIST"
	case KindNodes:
		return a.client() + `.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + os.Getenv("NODE_NAME"), ` +
			`ResourceVersion: "0"})`
	case KindPart:
		return a.informer() + `.Informer().GetIndexer().ByIndex("app", app) // in the place of a LIST with a selector`
	case KindRelist:
		return a.client() + `.Watch(ctx, metav1.ListOptions{ResourceVersion: last, AllowWatchBookmarks: true}) ` +
			`// last: of the last event or bookmark`
	case KindWatches:
		return a.client() + `.Watch(ctx, metav1.ListOptions{ResourceVersion: last, ` +
			`TimeoutSeconds: ptr.To(int64(300 + rand.IntN(300)))})`
	case KindFailing:
		return fmt.Sprintf("pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) "+
			"{ return %s.List(ctx, o) }).EachListItem(ctx, metav1.ListOptions{Limit: 500}, each)", a.client())
	}
	return ""
}

// changeOfPart is the line for a client that LISTs one namespace at a time, without a selector.
func changeOfPart(resource, version string) string {
	return apiOf(resource, version).lister() + " // in the place of a LIST of the namespace"
}

// kubectlChange returns the command in the place of what somebody does by kubectl.
func kubectlChange(kind, resource string) string {
	a := apiOf(resource, "")
	switch kind {
	case KindPolling, KindRelist:
		return a.kubectl() + " --watch # once, in the place of asking again and again"
	case KindWatches:
		return a.kubectl() + " --watch --request-timeout=0 # the default: it lasts until it is stopped"
	case KindFailing:
		return a.kubectl() + " --chunk-size=500 # the default: answers in pages"
	}
	return ""
}

// changeOf returns the line to write in the place of what a client does with a resource.
func changeOf(kind string, c Client, u *usage) string {
	switch {
	case strings.HasPrefix(c.Agent, "kubectl/"):
		return kubectlChange(kind, u.resource)
	case kind == KindPart && u.lists.Selected == 0:
		return changeOfPart(u.resource, u.version)
	}
	return Change(kind, u.resource, u.version)
}

// ofSchema returns what a FlowSchema says that gives a client a priority level of its own.
func ofSchema(c Client) string {
	subject := fmt.Sprintf("{kind: User, user: {name: %q}}", c.User)
	account, ok := strings.CutPrefix(c.User, "system:serviceaccount:")
	if namespace, name, two := strings.Cut(account, ":"); ok && two {
		subject = fmt.Sprintf("{kind: ServiceAccount, serviceAccount: {namespace: %q, name: %q}}", namespace, name)
	}
	if c.User == nodes {
		subject = `{kind: Group, group: {name: "system:nodes"}}`
	}
	return "subjects: [" + subject + "] # of a FlowSchema whose resourceRules have verbs: [list]"
}
