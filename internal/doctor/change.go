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

// watchOnce returns the command that WATCHes in the place of one that is run again and again.
func watchOnce(a api) string {
	return a.kubectl() + " --watch # once, in the place of asking again and again"
}

// Change returns the line of Go to write in place of what a finding of this kind is about, for
// client-go. It returns "" if the change is no line of the client. resource is kubectl's name.
// version is empty if the log does not have it.
func Change(kind, resource, version string) string {
	if k := kindOf(kind); k != nil && k.change != nil {
		return k.change(apiOf(resource, version), nil)
	}
	return ""
}

// changeOf returns the line to write in the place of what a client does with a resource.
func (k *kind) changeOf(c Client, u *usage) string {
	switch a := apiOf(u.resource, u.version); {
	case c.isKubectl():
		return k.kubectl(apiOf(u.resource, ""))
	case k.change != nil:
		return k.change(a, u)
	}
	return ""
}
