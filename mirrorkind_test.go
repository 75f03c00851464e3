package weir_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
)

// firstPut is a sink that sends the first record that Put receives to a channel.
type firstPut struct {
	*table
	record chan weir.Record
}

func (s firstPut) Put(r weir.Record) error {
	select {
	case s.record <- r:
	default:
	}
	return s.table.Put(r)
}

// TestMirrorKindOfSortedList uses a list whose own kind follows the items, as in kube-apiserver's
// lists of custom resources. The first record must nevertheless state the kind of its object.
func TestMirrorKindOfSortedList(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("watch") {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `{"apiVersion":"shop.example/v1","items":[`+
			`{"apiVersion":"shop.example/v1","kind":"Widget","metadata":{"name":"gear","namespace":"shop","resourceVersion":"3","uid":"u"}}`+
			`],"kind":"WidgetList","metadata":{"resourceVersion":"7"}}`)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sink := firstPut{newTable(t), make(chan weir.Record, 1)}
	opts := weir.Options{Resource: widgetVersion.WithResource("widgets"), ListWatch: weir.ListWatch{Mode: weir.ModeList}}
	stop := reflecting[*unstructured.Unstructured](t, ctx, &rest.Config{Host: server.URL}, opts, sink)
	if r := <-sink.record; r.Name != "gear" || r.Kind != widgetVersion.WithKind("Widget") {
		t.Errorf("the first object is %s of %v", r.Name, r.Kind)
	}
	check.NoError(t, stop())
}
