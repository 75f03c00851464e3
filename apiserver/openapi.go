package apiserver

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serveOpenAPI answers requests for the documents of version 3: schemas, and the parameters of a
// PATCH, which kubectl apply needs.
func (s *Server) serveOpenAPI(w http.ResponseWriter, r *http.Request, path []string) {
	if path[0] != "v3" {
		notFound(w, r)
		return
	}
	if len(path) == 1 {
		writeJSON(w, "application/json", map[string]any{"paths": s.openAPIRoot()})
		return
	}
	var gv schema.GroupVersion
	switch {
	case path[1] == "api" && len(path) == 3:
		gv.Version = path[2]
	case path[1] == "apis" && len(path) == 4:
		gv.Group, gv.Version = path[2], path[3]
	default:
		notFound(w, r)
		return
	}
	paths, schemas := map[string]any{}, openAPISchemas{}
	for _, res := range s.registry.all() {
		if res.GroupVersion() == gv {
			paths[res.path()] = map[string]any{"patch": res.patchOperation()}
			schemas.addKind(res)
		}
	}
	if len(paths) == 0 {
		notFound(w, r)
		return
	}
	writeJSON(w, "application/json", map[string]any{
		"openapi":    "3.0.0",
		"info":       map[string]any{"title": "Weir's embedded API server", "version": serverVersion.GitVersion},
		"paths":      paths,
		"components": map[string]any{"schemas": schemas},
	})
}

// openAPIRoot returns the paths of the documents.
func (s *Server) openAPIRoot() map[string]any {
	out := map[string]any{}
	for _, res := range s.registry.all() {
		root := strings.TrimPrefix(res.root(), "/")
		out[root] = map[string]any{"serverRelativeURL": "/openapi/v3/" + root}
	}
	return out
}

// root returns the path of the group version.
func (res *servedResource) root() string {
	if res.Group == "" {
		return "/api/" + res.Version
	}
	return "/apis/" + res.Group + "/" + res.Version
}

// path returns the path template of an object.
func (res *servedResource) path() string {
	path := res.root()
	if res.Namespaced {
		path += "/namespaces/{namespace}"
	}
	return path + "/" + res.GroupVersionResource.Resource + "/{name}"
}

func (res *servedResource) patchOperation() map[string]any {
	var parameters []map[string]any
	for _, name := range []string{"dryRun", "fieldManager", "fieldValidation"} {
		parameters = append(parameters, map[string]any{
			"name": name, "in": "query", "schema": map[string]any{"type": "string"}})
	}
	return map[string]any{
		"parameters":                      parameters,
		"responses":                       map[string]any{"200": map[string]any{"description": "OK"}},
		"x-kubernetes-action":             "patch",
		"x-kubernetes-group-version-kind": map[string]any{"group": res.Group, "version": res.Version, "kind": res.Kind},
	}
}
