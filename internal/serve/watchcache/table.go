package watchcache

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/wire"
)

// Column is one column of a Table, between Name and Age.
type Column struct {
	Name string
	Type string // string, integer, …: see metav1.TableColumnDefinition
	// Wide columns are shown only with -o wide.
	Wide bool
	// Cell returns the cell of a decoded object, which it must not modify. It must be safe for
	// concurrent use.
	Cell func(object any) any
}

// columns returns the column definitions of a resource.
func (r *Resource) columns() []metav1.TableColumnDefinition {
	out := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: "Name of the object."}}
	for _, c := range r.Columns {
		d := metav1.TableColumnDefinition{Name: c.Name, Type: c.Type}
		if c.Wide {
			d.Priority = 1
		}
		out = append(out, d)
	}
	return append(out, metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: "Time since the object was created."})
}

// row returns the row of one object.
func (rep *representation) row(raw []byte) (metav1.TableRow, error) {
	p, err := rep.partialMetadata(raw)
	if err != nil {
		return metav1.TableRow{}, err
	}
	row := metav1.TableRow{Cells: []any{p.Name}}
	if len(rep.resource.Columns) > 0 {
		object, err := rep.codec.DecodeShared(raw)
		if err != nil {
			return row, err
		}
		for _, c := range rep.resource.Columns {
			row.Cells = append(row.Cells, c.Cell(object))
		}
	}
	row.Cells = append(row.Cells, age(p.CreationTimestamp))
	switch rep.rowObject {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		object, err := rep.whole(raw)
		if err != nil {
			return row, err
		}
		row.Object = runtime.RawExtension{Raw: object}
	default:
		p.ManagedFields = nil // no table shows them
		row.Object = runtime.RawExtension{Object: p}
	}
	return row, nil
}

// whole returns an object as JSON with its kind.
func (rep *representation) whole(raw []byte) ([]byte, error) {
	whole := representation{resource: rep.resource, codec: rep.codec, stored: rep.stored}
	whole.Encoding = wire.JSON
	object, err := whole.object(raw)
	if err != nil {
		return nil, err
	}
	return wire.AppendObject(nil, wire.JSON, rep.resource.typeMeta(), object), nil
}

func age(created metav1.Time) string {
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(created.Time))
}

func (rep *representation) newTable() *metav1.Table {
	tm := rep.typeMeta()
	return &metav1.Table{
		TypeMeta:          metav1.TypeMeta{APIVersion: tm.APIVersion, Kind: tm.Kind},
		ColumnDefinitions: rep.resource.columns(),
		Rows:              []metav1.TableRow{},
	}
}

// appendTable appends a table of one object.
func (rep *representation) appendTable(dst, raw []byte) ([]byte, error) {
	row, err := rep.row(raw)
	if err != nil {
		return dst, err
	}
	var m wire.Meta
	if err := wire.ReadMeta(rep.stored, raw, &m); err != nil {
		return dst, err
	}
	t := rep.newTable()
	t.ResourceVersion = string(m.ResourceVersion)
	t.Rows = append(t.Rows, row)
	text, err := codec.MarshalAs(wire.JSON, t)
	return append(dst, text...), err
}
