package columns

import (
	"bytes"
	"reflect"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"
)

// Definition is an element of additionalPrinterColumns in a version of a CustomResourceDefinition.
type Definition struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format,omitempty"`
	Description string `json:"description,omitempty"`
	Priority    int32  `json:"priority,omitempty"`
	JSONPath    string `json:"jsonPath"`
}

// Custom returns the columns of a custom resource: Name, and those that a version of its
// CustomResourceDefinition defines. Without definitions, the columns are Name and Age. Custom
// ignores the first definition whose path is not valid or contains a range, and all that follow it,
// as kube-apiserver does with invalid ones.
func Custom(definitions []Definition) *Set {
	if len(definitions) == 0 {
		definitions = []Definition{{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}}
	}
	s := &Set{columns: []column{name}}
	for _, d := range definitions {
		path := jsonpath.New(d.Name).AllowMissingKeys(true)
		if stateful.MatchString(d.JSONPath) || path.Parse("{"+d.JSONPath+"}") != nil {
			break
		}
		s.columns = append(s.columns, column{
			metav1.TableColumnDefinition{Name: d.Name, Type: d.Type, Format: d.Format, Description: d.Description, Priority: d.Priority},
			func(o value) any { return d.cell(path, o) },
		})
	}
	return s
}

// stateful matches paths that may contain a range. Evaluating a range changes the parsed path, and
// client-go's jsonpath panics for some. A path of a column needs no range: it has one value.
var stateful = regexp.MustCompile(`[{}]|(^|[^.\w"'])range\b`)

// cell evaluates the column's path. It returns nil if the object has no value at the path, or one
// of another type.
func (d *Definition) cell(path *jsonpath.JSONPath, o value) any {
	if !o.exists() {
		return nil
	}
	found, err := path.FindResults(o.v.Interface())
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	v := o.with(found[0][0])
	switch kind := v.v.Kind(); d.Type {
	case "string":
		var text bytes.Buffer
		if err := path.PrintResults(&text, []reflect.Value{reflect.ValueOf(found[0][0].Interface())}); err != nil {
			return nil
		}
		return text.String()
	case "integer":
		if kind == reflect.Int64 || kind == reflect.Float64 {
			return v.num()
		}
	case "number":
		if kind == reflect.Int64 || kind == reflect.Float64 {
			return v.v.Convert(reflect.TypeFor[float64]()).Float()
		}
	case "boolean":
		if kind == reflect.Bool {
			return v.is()
		}
	case "date":
		if kind != reflect.String {
			return nil
		}
		at, err := time.Parse(time.RFC3339, v.str())
		if err != nil && v.str() != "" && v.str() != "null" {
			return "<invalid>"
		}
		return sinceTime(at, o.row.now)
	}
	return nil
}
