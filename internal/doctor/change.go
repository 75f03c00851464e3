package doctor

import (
	"fmt"
	"strings"
)

// gvr returns the resource as a Go literal.
func (a api) gvr() string {
	version := "version" // which nobody told
	if a.version != "" {
		version = fmt.Sprintf("%q", a.version)
	}
	return fmt.Sprintf("schema.GroupVersionResource{Group: %q, Version: %s, Resource: %q}", a.group, version, a.resource)
}

// client returns the Go expression of client-go's client of the resource, in all namespaces.
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

// informer returns the Go expression of what a client-go factory has for the resource. It has the
// methods Informer and Lister.
func (a api) informer() string {
	if a.method == "" {
		return fmt.Sprintf("factory.ForResource(%s)", a.gvr())
	}
	return fmt.Sprintf("factory.%s().%s().%s()", a.clientGroup(), title(a.version), a.method)
}

// lister returns the Go expression that lists one namespace of what an informer holds, or all of it
// if the resource has no namespaces.
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

// kubectl returns the command that gets the resource of all namespaces.
func (a api) kubectl() string {
	name := strings.TrimSuffix(a.resource+"."+a.group, ".")
	if a.cluster {
		return "kubectl get " + name
	}
	return "kubectl get " + name + " --all-namespaces"
}

// Change returns the line of Go to write in place of what a finding of this kind is about, for
// client-go. It returns "" if the change is no line of the client. resource is kubectl's name.
// version is empty if nobody told it.
func Change(kind, resource, version string) string {
	a := apiOf(resource, version)
	switch kind {
	case FindingPolling:
		return fmt.Sprintf("%s.Lister().List(selector) // in the place of %s.List(ctx, options)", a.informer(), a.client())
	case FindingResync:
		return a.lister() + " // in the handler, in the place of a LIST"
	case FindingNodes:
		return a.client() + `.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + os.Getenv("NODE_NAME"), ` +
			`ResourceVersion: "0"})`
	case FindingPart:
		return a.informer() + `.Informer().GetIndexer().ByIndex("app", app) // in the place of a LIST with a selector`
	case FindingRelist:
		return a.client() + `.Watch(ctx, metav1.ListOptions{ResourceVersion: last, AllowWatchBookmarks: true}) ` +
			`// last: of the last event or bookmark`
	case FindingWatches:
		return a.client() + `.Watch(ctx, metav1.ListOptions{ResourceVersion: last, ` +
			`TimeoutSeconds: ptr.To(int64(300 + rand.IntN(300)))})`
	case FindingFailing:
		return fmt.Sprintf("pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) "+
			"{ return %s.List(ctx, o) }).EachListItem(ctx, metav1.ListOptions{Limit: 500}, each)", a.client())
	}
	return ""
}

// changeOfPart returns the line for a client that LISTs one namespace at a time, without a
// selector.
func changeOfPart(resource, version string) string {
	return apiOf(resource, version).lister() + " // in the place of a LIST of the namespace"
}

// kubectlChange returns the command to run in place of what somebody does by kubectl, or "" if
// there is none.
func kubectlChange(kind, resource string) string {
	a := apiOf(resource, "")
	switch kind {
	case FindingPolling, FindingRelist:
		return a.kubectl() + " --watch # once, in the place of asking again and again"
	case FindingWatches:
		return a.kubectl() + " --watch --request-timeout=0 # the default: it lasts until it is stopped"
	case FindingFailing:
		return a.kubectl() + " --chunk-size=500 # the default: answers in pages"
	}
	return ""
}

// changeOf returns the line to write in the place of what a client does with a resource.
func changeOf(kind string, c Client, u *usage) string {
	switch {
	case strings.HasPrefix(c.Agent, "kubectl/"):
		return kubectlChange(kind, u.resource)
	case kind == FindingPart && u.lists.Selected == 0:
		return changeOfPart(u.resource, u.version)
	}
	return Change(kind, u.resource, u.version)
}

// ofSchema returns the subjects of a FlowSchema that gives a client a priority level of its own.
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
