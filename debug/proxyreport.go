package debug

import (
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/serve/inspect"
)

// proxy is the page's data about a proxy.
type proxy struct {
	Name string `json:"name"` // its URL
	inspect.State
	Resources []resource `json:"resources"` // by full name
}

// resource is the page's data about a resource of a proxy.
type resource struct {
	inspect.Resource
	RawBytes    int64            `json:"rawBytes"`
	MemoryBytes map[string]int64 `json:"memoryBytes"`
	RelistsBy   map[string]int   `json:"relistsBy,omitempty"`
	Reflector   *reflectorState  `json:"reflector,omitempty"`
}

func proxyOf(p registry.Named[inspect.Proxy]) proxy {
	out := proxy{Name: p.Name, State: p.Value.State(), Resources: []resource{}}
	for _, r := range out.State.Resources {
		one := resource{Resource: r, RawBytes: r.Memory.Raw, MemoryBytes: memoryOf(r.Memory), RelistsBy: relistsBy(r.Relists)}
		if r.Reflector != nil {
			of := reflectorOf(*r.Reflector, r.Transitions)
			one.Reflector = &of
		}
		out.Resources = append(out.Resources, one)
	}
	return out
}
