package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/tools/command"
)

// columnsOf returns kubectl's columns of a resource. Those of a custom resource are in its
// CustomResourceDefinition; if that cannot be read, they are Name and Age. Built-in kinds with only
// two columns have no such definition, so the request for it fails.
func columnsOf(ctx context.Context, cfg *rest.Config, r serverResource) *columns.Set {
	set := columns.Of(r.Kind)
	if len(set.Definitions()) > 2 || !strings.Contains(r.Group, ".") {
		return set
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

// headers returns a header for each definition of the resource's columns, or "" for a column that
// the table does not show: the name, which precedes all columns, and wide ones without -o wide.
// There are none if -o defines the columns, or the output is not a table.
func (w *watch) headers() []string {
	if w.columns == nil || w.output != "" && w.output != outputWide {
		return nil
	}
	definitions := w.columns.Definitions()
	headers := make([]string, len(definitions))
	for i, d := range definitions {
		// A custom resource may define a second column with this name.
		isName := d.Name == "Name" && (i == 0 || definitions[0].Name != "Name")
		if !isName && (d.Priority == 0 || w.output == outputWide) {
			headers[i] = strings.ToUpper(d.Name)
		}
	}
	return headers
}

// more returns an object's cells at a time for the columns of the sheet that follow the name. A
// cell is empty if the object's kind lacks the column.
func (c *changes[T]) more(item weir.Item[T], now time.Time) ([]string, error) {
	object, err := item.Object()
	if err != nil {
		return nil, err
	}
	cells, values := make([]string, len(c.sheet.columns)), c.w.columns.Cells(object, now)
	for i, at := range c.w.positions {
		if at >= 0 {
			cells[at] = columns.Text(values[i])
		}
	}
	return cells, nil
}
