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

// serverPods contains the pods of a server at the time when they were read. It is not modified, and
// is safe for concurrent use.
type serverPods struct {
	keys  []string // namespace/name
	raw   [][]byte // as protobuf; nil if not needed
	nodes []string // the names of nodes with pods, sorted
	label string   // the label that a controller would select by
	apps  []string // selectors with that label; each matches few pods
}

// selectorLabels are the labels that a controller would select by, the preferred ones first.
var selectorLabels = []string{"app", "app.kubernetes.io/name", "app.kubernetes.io/instance", "k8s-app", "pod-template-hash"}

// readServerPods reads the pods of a server in one LIST. It keeps their protobuf if raw is set.
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
	delete(nodes, "") // the pods that are not scheduled
	p.nodes = slices.Sorted(maps.Keys(nodes))
	for _, label := range selectorLabels {
		if len(apps[label]) > len(p.apps) {
			p.label, p.apps = label, slices.Sorted(maps.Keys(apps[label]))
		}
	}
	return p
}
