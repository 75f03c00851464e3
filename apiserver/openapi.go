package apiserver

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serveOpenAPI answers requests for the OpenAPI documents of version 3. The documents contain the
// schemas of the kinds. They also describe the parameters of a PATCH, because kubectl apply needs
// them.
func (s *Server) serveOpenAPI(w http.ResponseWriter, path []string) error {
	if path[0] != "v3" {
		return errPath()
	}
	if len(path) == 1 {
		writeJSON(w, "application/json", map[string]any{"paths": s.openAPIRoot()})
		return nil
	}
	var gv schema.GroupVersion
	switch {
	case path[1] == "api" && len(path) == 3:
		gv.Version = path[2]
	case path[1] == "apis" && len(path) == 4:
		gv.Group, gv.Version = path[2], path[3]
	default:
		return errPath()
	}
	paths, schemas := map[string]any{}, openAPISchemas{}
	for _, res := range s.registry.all() {
		if res.GroupVersion() == gv {
			paths[res.path()] = map[string]any{"patch": res.patchOperation()}
			schemas.addKind(res)
		}
	}
	if len(paths) == 0 {
		return errPath()
	}
	writeJSON(w, "application/json", map[string]any{
		"openapi":    "3.0.0",
		"info":       map[string]any{"title": "Weir's embedded API server", "version": serverVersion.GitVersion},
		"paths":      paths,
		"components": map[string]any{"schemas": schemas},
	})
	return nil
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

// openAPISchemas are the schemas of Go types and custom resources, by name. kubectl explain shows
// them, and kubectl apply uses them to merge objects. This server does not enforce them.
type openAPISchemas map[string]any

// addKind adds the schema of a resource's kind, and the schemas of all types in it.
func (d openAPISchemas) addKind(res *servedResource) {
	var name string
	var kind map[string]any
	if res.goType != nil {
		name = d.define(res.goType)
		kind = d[name].(map[string]any)
	} else {
		name = reverseDomain(res.Group) + "." + res.Version + "." + res.Kind
		kind = d.custom(res)
		d[name] = kind
	}
	kind["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": res.Group, "version": res.Version, "kind": res.Kind}}
}

// custom returns the schema of a custom resource: Resource.Schema plus the fields that every object
// has (apiVersion, kind and metadata).
func (d openAPISchemas) custom(res *servedResource) map[string]any {
	kind := map[string]any{"type": "object"}
	if text, err := json.Marshal(res.Schema); err == nil && res.Schema != nil {
		_ = json.Unmarshal(text, &kind) // copies res.Schema
	}
	properties, ok := kind["properties"].(map[string]any)
	if !ok {
		properties = map[string]any{}
		kind["properties"] = properties
	}
	typeMeta, _ := d.properties(reflect.TypeFor[metav1.TypeMeta]())
	maps.Copy(properties, typeMeta)
	properties["metadata"] = described(d.of(reflect.TypeFor[metav1.ObjectMeta]()), docsOf(reflect.TypeFor[metav1.PartialObjectMetadata]())["metadata"])
	return kind
}

// define adds the schema of a struct and returns its name.
func (d openAPISchemas) define(t reflect.Type) string {
	name := schemaName(t)
	if _, ok := d[name]; ok {
		return name
	}
	schema := map[string]any{"type": "object"}
	d[name] = schema // before its fields, because they may contain t
	properties, required := d.properties(t)
	if len(properties) > 0 {
		schema["properties"] = properties
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	if text := docsOf(t)[""]; text != "" {
		schema["description"] = text
	}
	return name
}

// properties returns the schemas of a struct's fields, and the names of the required fields.
func (d openAPISchemas) properties(t reflect.Type) (properties map[string]any, required []string) {
	properties = map[string]any{}
	docs := docsOf(t)
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
			continue
		case name == "" && field.Anonymous:
			inlined, more := d.properties(field.Type)
			maps.Copy(properties, inlined)
			required = append(required, more...)
			continue
		}
		p := described(d.of(field.Type), docs[name])
		for tag, extension := range map[string]string{"patchStrategy": "x-kubernetes-patch-strategy", "patchMergeKey": "x-kubernetes-patch-merge-key"} {
			if value := field.Tag.Get(tag); value != "" {
				p[extension] = value
			}
		}
		properties[name] = p
		if !strings.Contains(options, "omitempty") && field.Type.Kind() != reflect.Pointer {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return properties, required
}

// of returns the schema of a type. For a struct, the schema refers to the struct's definition.
func (d openAPISchemas) of(t reflect.Type) map[string]any {
	if text, ok := reflect.New(t).Interface().(textType); ok && t.Kind() == reflect.Struct {
		return d.ofText(t, text)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.of(t.Elem())
	case reflect.Struct:
		return map[string]any{"$ref": "#/components/schemas/" + d.define(t)}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "format": "byte"}
		}
		return map[string]any{"type": "array", "items": d.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.of(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number", "format": "double"}
	case reflect.Int64:
		return map[string]any{"type": "integer", "format": "int64"}
	case reflect.Interface:
		return map[string]any{}
	}
	return map[string]any{"type": "integer", "format": "int32"}
}

// textType is a struct that JSON represents as text, such as a Time.
type textType interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

// ofText returns the schema of a struct that JSON represents as text. As in kube-apiserver's
// documents, a struct that JSON may also represent as a number has a separate definition, to which
// the returned schema refers.
func (d openAPISchemas) ofText(t reflect.Type, text textType) map[string]any {
	schema := map[string]any{}
	if format := text.OpenAPISchemaFormat(); format != "" {
		schema["format"] = format
	}
	either, ok := text.(interface{ OpenAPIV3OneOfTypes() []string })
	if !ok {
		schema["type"] = text.OpenAPISchemaType()[0]
		return schema
	}
	var types []any
	for _, name := range either.OpenAPIV3OneOfTypes() {
		types = append(types, map[string]any{"type": name})
	}
	schema["oneOf"] = types
	name := schemaName(t)
	d[name] = schema
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

// described returns schema with a description. If schema is a reference, which cannot have a
// description, described wraps it in another schema.
func described(schema map[string]any, text string) map[string]any {
	if schema["$ref"] != nil {
		schema = map[string]any{"allOf": []any{schema}}
	}
	if text != "" {
		schema["description"] = text
	}
	return schema
}

// docsOf returns the descriptions of a type's fields by the names of the fields. The description of
// the type has the name "".
func docsOf(t reflect.Type) map[string]string {
	if d, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// schemaName returns the name of a type's schema, for example io.k8s.api.core.v1.Pod.
func schemaName(t reflect.Type) string {
	domain, rest, _ := strings.Cut(t.PkgPath(), "/")
	return reverseDomain(domain) + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}

func reverseDomain(domain string) string {
	parts := strings.Split(domain, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}
