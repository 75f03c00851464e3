package apiserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// acceptTable is what kubectl sends.
const acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

func TestTables(t *testing.T) {
	withTestServer(t, apiserver.Options{Pods: 30}, func(t *testing.T, ts *testServer) {
		var table metav1.Table
		ts.do(http.MethodGet, "/api/v1/pods?limit=10", nil, "Accept", acceptTable).decode(t, &table)
		if table.Kind != "Table" || table.APIVersion != "meta.k8s.io/v1" || len(table.Rows) != 10 || table.Continue == "" || *table.RemainingItemCount != 20 {
			t.Fatalf("%+v", table.ListMeta)
		}
		var columns []string
		for _, d := range table.ColumnDefinitions {
			columns = append(columns, d.Name)
		}
		check.Equal(t, strings.Join(columns, " "), "Name Ready Status Restarts IP Node Age", "columns")
		row := table.Rows[0]
		if len(row.Cells) != len(columns) || row.Cells[1] != "2/2" || row.Cells[2] != "Running" || row.Cells[6] == "" {
			t.Errorf("cells %v", row.Cells)
		}
		var p metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &p); err != nil || p.Kind != "PartialObjectMetadata" || p.Name != row.Cells[0] {
			t.Errorf("object %s: %v", row.Object.Raw, err)
		}
		path := "/api/v1/namespaces/" + p.Namespace + "/pods/" + p.Name
		var one metav1.Table
		ts.do(http.MethodGet, path+"?includeObject=Object", nil, "Accept", acceptTable).decode(t, &one)
		var pod corev1.Pod
		if err := json.Unmarshal(one.Rows[0].Object.Raw, &pod); err != nil || pod.Kind != "Pod" || len(pod.Spec.Containers) != 2 {
			t.Errorf("object %s: %v", one.Rows[0].Object.Raw, err)
		}
		var none metav1.Table
		ts.do(http.MethodGet, path+"?includeObject=None", nil, "Accept", acceptTable).decode(t, &none)
		if none.Rows[0].Object.Raw != nil && string(none.Rows[0].Object.Raw) != "null" {
			t.Errorf("object %s", none.Rows[0].Object.Raw)
		}
		var empty metav1.Table
		ts.do(http.MethodGet, "/api/v1/namespaces/default/secrets", nil, "Accept", acceptTable).decode(t, &empty)
		if empty.Rows == nil || len(empty.Rows) != 0 {
			t.Errorf("rows %v", empty.Rows)
		}

		w := ts.watch("/api/v1/pods?watch=1", "Accept", acceptTable)
		defer w.close()
		e, err := w.events.Next()
		if err != nil || e.TypeMeta.Kind != "Table" {
			t.Fatal(err, e.TypeMeta)
		}
		var event metav1.Table
		if err := json.Unmarshal(e.Object, &event); err != nil || len(event.Rows) != 1 || event.ResourceVersion == "" {
			t.Errorf("event %s: %v", e.Object, err)
		}
	})
}
