package wire_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/weirproject/weir/internal/core/wire"
)

const podList = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42"},"items":[
	{"metadata":{"namespace":"shop","name":"web-1","labels":{"app":"web"}},"spec":{"nodeName":"node-7"}},
	{"metadata":{"namespace":"shop","name":"db-1","labels":{"app":"db"}},"spec":{}}]}`

func ExampleListReader() {
	list := wire.NewListReader(strings.NewReader(podList), wire.JSON, wire.Limits{})
	var m wire.Meta
	for {
		item, err := list.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = wire.ReadMeta(wire.JSON, item, &m)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		app, _ := m.Label("app")
		fmt.Printf("%s app=%s\n", wire.AppendKey(nil, &m), app)
	}
	fmt.Println(list.ItemTypeMeta().Kind, "at", list.Meta().ResourceVersion)
	// Output:
	// shop/web-1 app=web
	// shop/db-1 app=db
	// Pod at 42
}

func ExampleAppendEvent() {
	pod := wire.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	body := wire.AppendEvent(nil, wire.JSON, wire.Added, pod, []byte(`{"metadata":{"name":"web-1"}}`))
	fmt.Print(string(body))
	r := wire.NewWatchReader(bytes.NewReader(body), wire.JSON, wire.Limits{})
	e, err := r.Next()
	fmt.Println(e.Type, e.TypeMeta.Kind, err)
	// Output:
	// {"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1"}}}
	// ADDED Pod <nil>
}

func ExamplePath() {
	nodeName, err := wire.CompilePath(wire.JSON, nil, "spec.nodeName")
	if err != nil {
		fmt.Println(err)
		return
	}
	values, err := nodeName.Append(nil, []byte(`{"spec":{"nodeName":"node-7"}}`))
	fmt.Printf("%s %v\n", values, err)
	// Output: [node-7] <nil>
}

func ExampleDropper() {
	drop, err := wire.CompileDrop(wire.JSON, nil, "metadata.managedFields", "status")
	if err != nil {
		fmt.Println(err)
		return
	}
	object, err := drop.Append(nil, []byte(`{"metadata":{"name":"web-1","managedFields":[{}]},"spec":{},"status":{}}`))
	fmt.Printf("%s %v\n", object, err)
	// Output: {"metadata":{"name":"web-1"},"spec":{}} <nil>
}
