package servers

import (
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

var errNoPods = errors.New("the server has no pods")

// serverPods are the pods of a server, as they were when it was read. They are read-only and safe
// for concurrent use.
type serverPods struct {
	keys  []string // namespace/name
	raw   [][]byte // as protobuf, where they are needed
	nodes []string // that have pods, sorted
	label string   // that a controller would select by
	apps  []string // its selectors, which match few pods each
}

// selectorLabels are labels that a controller would select by, best first.
var selectorLabels = []string{"app", "app.kubernetes.io/name", "app.kubernetes.io/instance", "k8s-app", "pod-template-hash"}

// readServerPods reads the pods of a server in one LIST.
func readServerPods(ctx context.Context, c *client, raw bool) *serverPods {
	answer := figures.Must(c.do(ctx, request{path: podsPath, query: "resourceVersion=0"}))
	defer answer.Body.Close()
	node := figures.Must(wire.CompilePath(wire.Protobuf, reflect.TypeFor[corev1.Pod](), "spec.nodeName"))
	p := &serverPods{}
	nodes, apps := map[string]bool{}, map[string]map[string]bool{}
	for _, label := range selectorLabels {
		apps[label] = map[string]bool{}
	}
	var m wire.Meta
	list := wire.NewListReader(answer.Body, wire.Protobuf, wire.Limits{})
	for item, err := list.Next(); err != io.EOF; item, err = list.Next() {
		figures.Check(err, "reading the pods")
		figures.Check(wire.ReadMeta(wire.Protobuf, item, &m), "reading the pods")
		p.keys = append(p.keys, string(wire.AppendKey(nil, &m)))
		if raw {
			p.raw = append(p.raw, slices.Clone(item))
		}
		for _, name := range figures.Must(node.Append(nil, item)) {
			nodes[string(name)] = true
		}
		for _, label := range selectorLabels {
			if value, ok := m.Label(label); ok {
				apps[label][label+"="+string(value)] = true
			}
		}
	}
	figures.Require(len(p.keys) > 0, errNoPods)
	delete(nodes, "") // those that are not scheduled
	p.nodes = slices.Sorted(maps.Keys(nodes))
	for _, label := range selectorLabels {
		if len(apps[label]) > len(p.apps) {
			p.label, p.apps = label, slices.Sorted(maps.Keys(apps[label]))
		}
	}
	return p
}
