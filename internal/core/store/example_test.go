package store_test

import (
	"fmt"
	"log"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// put puts an object of a LIST or a WATCH, as a reflector does.
func put(w *store.Writer, raw string) {
	var m wire.Meta
	if err := wire.ReadMeta(wire.JSON, []byte(raw), &m); err != nil {
		log.Fatal(err)
	}
	if err := w.Put(&m, []byte(raw)); err != nil {
		log.Fatal(err)
	}
}

// A writer fills the store, a cursor returns the changes, and a snapshot shows one moment.
func Example() {
	s := store.New(store.Config{Encoding: wire.JSON})
	defer s.Close()
	if err := s.AddIndex("app", store.LabelIndex("app")); err != nil {
		log.Fatal(err)
	}
	c := s.Cursor()
	defer c.Close()

	w := s.Writer(store.Scope{})
	w.BeginReplace(false)
	put(w, `{"metadata":{"namespace":"shop","name":"web","uid":"1","resourceVersion":"10","labels":{"app":"web"}}}`)
	put(w, `{"metadata":{"namespace":"shop","name":"db","uid":"2","resourceVersion":"11"}}`)
	w.EndReplace("12")
	put(w, `{"metadata":{"namespace":"shop","name":"db","uid":"2","resourceVersion":"13","labels":{"app":"db"}}}`)
	w.Flush()

	changes := make([]store.Change, 10)
	for _, ch := range changes[:c.Next(changes)] {
		if ch.Old == nil {
			fmt.Println("new:", ch.Key())
		} else {
			fmt.Println("changed:", ch.Key(), ch.Old.ResourceVersion(), "to", ch.New.ResourceVersion())
		}
	}
	sn := s.Snapshot()
	for o := range sn.All() {
		fmt.Println(o.Namespace(), o.Name(), o.Labels())
	}
	objects, err := sn.By("app", "web")
	if err != nil {
		log.Fatal(err)
	}
	for o := range objects {
		fmt.Println("app web:", o.Name())
	}
	// Output:
	// new: shop/web
	// new: shop/db
	// changed: shop/db 11 to 13
	// shop db map[app:db]
	// shop web map[app:web]
	// app web: web
}
