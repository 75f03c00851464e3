package apiserver

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weirproject/weir/internal/core/columns"
)

// crdDefinition is the part of a CustomResourceDefinition that this server reads. The server does
// not enforce the schemas in it.
type crdDefinition struct {
	Spec struct {
		Group string          `json:"group"`
		Scope string          `json:"scope"`
		Names definitionNames `json:"names"`

		Versions []definitionVersion `json:"versions"`
	} `json:"spec"`
}

type definitionNames struct {
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular,omitempty"`
	Kind       string   `json:"kind"`
	ListKind   string   `json:"listKind,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Categories []string `json:"categories,omitempty"`
}

type definitionVersion struct {
	Name    string `json:"name"`
	Served  bool   `json:"served"`
	Storage bool   `json:"storage"`
	Schema  struct {
		OpenAPIV3Schema map[string]any `json:"openAPIV3Schema,omitempty"`
	} `json:"schema"`
	Subresources struct {
		Status *struct{}        `json:"status,omitempty"`
		Scale  *definitionScale `json:"scale,omitempty"`
	} `json:"subresources"`
	SelectableFields []struct {
		JSONPath string `json:"jsonPath"`
	} `json:"selectableFields,omitempty"`
	AdditionalPrinterColumns []columns.Definition `json:"additionalPrinterColumns,omitempty"`
}

type definitionScale struct {
	SpecReplicasPath   string `json:"specReplicasPath"`
	StatusReplicasPath string `json:"statusReplicasPath"`
	LabelSelectorPath  string `json:"labelSelectorPath,omitempty"`
}

func readDefinition(o object) (*crdDefinition, error) {
	d := &crdDefinition{}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, apierrors.NewBadRequest("a CustomResourceDefinition must be unstructured")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
		return nil, apierrors.NewBadRequest("reading the CustomResourceDefinition: " + err.Error())
	}
	return d, nil
}

// resources returns the served versions as Resources. The storage version is the first, if it is
// served.
func (d *crdDefinition) resources() []Resource {
	var out []Resource
	for _, v := range d.Spec.Versions {
		if !v.Served {
			continue
		}
		r := Resource{
			GroupVersionResource: schema.GroupVersionResource{Group: d.Spec.Group, Version: v.Name, Resource: d.Spec.Names.Plural},
			Kind:                 d.Spec.Names.Kind,
			ListKind:             d.Spec.Names.ListKind,
			Singular:             d.Spec.Names.Singular,
			ShortNames:           d.Spec.Names.ShortNames,
			Categories:           d.Spec.Names.Categories,
			Namespaced:           d.Spec.Scope == "Namespaced",
			Status:               v.Subresources.Status != nil,
			Schema:               v.Schema.OpenAPIV3Schema,
			columns:              v.AdditionalPrinterColumns,
		}
		if scale := v.Subresources.Scale; scale != nil {
			r.Scale = &Scale{scale.SpecReplicasPath, scale.StatusReplicasPath, scale.LabelSelectorPath}
		}
		for _, f := range v.SelectableFields {
			r.SelectableFields = append(r.SelectableFields, f.JSONPath)
		}
		if v.Storage { // the first registered version is the stored one
			out = slices.Insert(out, 0, r)
		} else {
			out = append(out, r)
		}
	}
	return out
}

func (d *crdDefinition) validate(name string) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if d.Spec.Group == "" {
		errs = append(errs, field.Required(spec.Child("group"), ""))
	}
	if d.Spec.Names.Plural == "" {
		errs = append(errs, field.Required(spec.Child("names", "plural"), ""))
	}
	if d.Spec.Names.Kind == "" {
		errs = append(errs, field.Required(spec.Child("names", "kind"), ""))
	}
	if d.Spec.Scope != "Namespaced" && d.Spec.Scope != "Cluster" {
		errs = append(errs, field.NotSupported(spec.Child("scope"), d.Spec.Scope, []string{"Cluster", "Namespaced"}))
	}
	if want := d.Spec.Names.Plural + "." + d.Spec.Group; name != want {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, "must be spec.names.plural+\".\"+spec.group"))
	}
	storage := 0
	for i, v := range d.Spec.Versions {
		if v.Name == "" {
			errs = append(errs, field.Required(spec.Child("versions").Index(i).Child("name"), ""))
		}
		if v.Storage {
			storage++
		}
	}
	if storage != 1 {
		errs = append(errs, field.Invalid(spec.Child("versions"), storage, "must have exactly one version marked as storage version"))
	}
	return errs
}

func (res *servedResource) definesResources() bool {
	return res.GroupVersionResource == crdResource.GroupVersionResource
}

// admit applies an object's write-only fields, see applyWriteOnly. If the object is a
// CustomResourceDefinition, admit also validates it and sets its status to established. In
// Kubernetes, a controller sets this status later.
func (s *Server) admit(res *servedResource, o object) error {
	applyWriteOnly(o)
	if !res.definesResources() {
		return nil
	}
	d, err := readDefinition(o)
	if err != nil {
		return err
	}
	if errs := d.validate(o.GetName()); len(errs) > 0 {
		return apierrors.NewInvalid(res.groupKind(), o.GetName(), errs)
	}
	if s.registry.isBuiltIn(schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}) {
		return apierrors.NewInvalid(res.groupKind(), o.GetName(), field.ErrorList{
			field.Forbidden(field.NewPath("spec", "group"), "the resource is built in")})
	}
	return d.establish(o.(*unstructured.Unstructured))
}

// establish sets the status that a CustomResourceDefinition has when its resources are served.
func (d *crdDefinition) establish(u *unstructured.Unstructured) error {
	names := d.Spec.Names
	r := Resource{Kind: names.Kind, ListKind: names.ListKind, Singular: names.Singular}.complete()
	names.ListKind, names.Singular = r.ListKind, r.Singular
	accepted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&names)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if u.Object["status"] != nil {
		if old, ok, _ := unstructured.NestedSlice(u.Object, "status", "conditions"); ok && len(old) > 0 {
			return unstructured.SetNestedMap(u.Object, accepted, "status", "acceptedNames")
		}
	}
	var conditions, stored []any
	for _, t := range [][2]string{{"NamesAccepted", "NoConflicts"}, {"Established", "InitialNamesAccepted"}} {
		conditions = append(conditions, map[string]any{
			"type": t[0], "status": string(metav1.ConditionTrue), "reason": t[1], "message": "",
			"lastTransitionTime": u.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z"),
		})
	}
	for _, v := range d.Spec.Versions {
		if v.Storage {
			stored = append(stored, v.Name)
		}
	}
	u.Object["status"] = map[string]any{"acceptedNames": accepted, "conditions": conditions, "storedVersions": stored}
	return nil
}

// afterWrite registers the served versions of a CustomResourceDefinition that was stored, and
// unregisters the versions that it no longer serves. It does nothing for other objects. Call it
// before the next write of the object: the caller holds the storage's mu, or is New.
func (s *Server) afterWrite(res *servedResource, o object) error {
	if !res.definesResources() || finalized(o) {
		if res.definesResources() {
			s.afterDelete(res, o)
		}
		return nil
	}
	d, err := readDefinition(o)
	if err != nil {
		return err
	}
	wanted := map[schema.GroupVersionResource]bool{}
	for _, r := range d.resources() {
		wanted[r.GroupVersionResource] = true
		if err := s.Register(r); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	for _, existing := range s.registry.all() {
		gvr := existing.GroupVersionResource
		if gvr.Group == d.Spec.Group && gvr.Resource == d.Spec.Names.Plural && !wanted[gvr] {
			s.Unregister(gvr)
		}
	}
	return nil
}

// afterUpdate calls afterWrite after an update of an object. generation is the object's generation
// before the update. If the generation did not change, the spec of a CustomResourceDefinition did
// not change either. afterUpdate then does nothing, so that the watches of the defined resources
// continue.
func (s *Server) afterUpdate(res *servedResource, o object, generation int64) error {
	if o.GetGeneration() == generation && !finalized(o) {
		return nil
	}
	return s.afterWrite(res, o)
}

// afterDelete unregisters the resources of a CustomResourceDefinition that was deleted. It does
// nothing for other objects.
func (s *Server) afterDelete(res *servedResource, o object) {
	if !res.definesResources() {
		return
	}
	d, err := readDefinition(o)
	if err != nil {
		return
	}
	var gvrs []schema.GroupVersionResource
	for _, r := range d.resources() {
		gvrs = append(gvrs, r.GroupVersionResource)
	}
	s.unregister(gvrs...)
}
