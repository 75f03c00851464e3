package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/tools/command"
)

// columnsOf returns kubectl's columns of a resource. Those of a custom resource are in its
// CustomResourceDefinition; if that cannot be read, they are Name and Age.
func columnsOf(ctx context.Context, cfg *rest.Config, r serverResource) *columns.Set {
	set := columns.Of(r.Kind)
	if len(set.Definitions()) > 2 || !strings.Contains(r.Group, ".") {
		return set // a built-in kind
	}
	client, err := source.NewDiscovery(command.Impatient(cfg))
	if err != nil {
		return set
	}
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	text, err := client.REST().Get().AbsPath(path, r.String()).MaxRetries(0).Do(ctx).Raw()
	var definition struct {
		Spec struct {
			Versions []struct {
				Name                     string               `json:"name"`
				AdditionalPrinterColumns []columns.Definition `json:"additionalPrinterColumns"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err != nil || json.Unmarshal(text, &definition) != nil {
		return set
	}
	for _, v := range definition.Spec.Versions {
		if v.Name == r.Version {
			return columns.Custom(v.AdditionalPrinterColumns)
		}
	}
	return set
}

// shows reports whether the table has this column. The name has its own column.
func (w *watch) shows(d metav1.TableColumnDefinition) bool {
	return d.Name != "Name" && (d.Priority == 0 || w.output == outputWide)
}

// headers returns the headers of the columns after the name. There are none if the output is not a
// table.
func (w *watch) headers() (all []string) {
	if w.columns == nil {
		return nil
	}
	for _, d := range w.columns.Definitions() {
		if w.shows(d) {
			all = append(all, strings.ToUpper(d.Name))
		}
	}
	return all
}

// more returns an object's cells at a time for the columns of the sheet that follow the name. A
// cell is empty if the object's kind lacks the column.
func (c *changes[T]) more(item weir.Item[T], now time.Time) ([]string, error) {
	object, err := item.Object()
	if err != nil {
		return nil, err
	}
	cells, values := make([]string, len(c.sheet.columns)), c.w.columns.Cells(object, now)
	for i, d := range c.w.columns.Definitions() {
		if c.w.shows(d) {
			cells[slices.Index(c.sheet.columns, strings.ToUpper(d.Name))] = columns.Text(values[i])
		}
	}
	return cells, nil
}
