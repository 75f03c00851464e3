package weir_test

import (
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
)

// names is a sink that stores the names of objects. It prints them after the first complete state.
type names struct {
	held, replacing map[string]bool
	cancel          func()
}

func (n *names) ResourceVersion() (string, error) { return "", nil } // the sink stores no version

func (n *names) BeginReplace() error {
	n.replacing = map[string]bool{}
	return nil
}

func (n *names) EndReplace(string) error {
	n.held, n.replacing = n.replacing, nil
	fmt.Println(len(n.held), n.held["red"])
	n.cancel() // ends Mirror, which would otherwise continue with changes
	return nil
}

func (n *names) AbortReplace() error {
	n.replacing = nil
	return nil
}

func (n *names) Put(r weir.Record) error {
	n.current()[r.Name] = true
	return nil
}

func (n *names) Delete(r weir.Record) error {
	delete(n.current(), r.Name)
	return nil
}

func (n *names) Commit(string) error { return nil }

func (n *names) current() map[string]bool {
	if n.replacing != nil {
		return n.replacing
	}
	return n.held
}

// A custom sink replaces an informer's memory. The sink in examples/boltsink writes to a database.
func ExampleMirror() {
	d := startDemo()
	defer d.stop()

	opts := weir.Options{Namespaces: []string{"colours"}}
	if err := weir.Mirror[*corev1.ConfigMap](d.ctx, d.Config(), opts, &names{cancel: d.cancel}); err != nil {
		log.Fatal(err)
	}
	// Output: 3 true
}
