package debug

import (
	"github.com/weirproject/weir/internal/core/registry"
)

// proxy is the page's data about a proxy.
type proxy struct {
	Name string `json:"name"` // its URL
	registry.ProxyState
	Resources []resource `json:"resources"` // by full name
}

// resource is the page's data about a resource of a proxy.
type resource struct {
	registry.ProxyResource
	RawBytes    int64            `json:"rawBytes"`
	MemoryBytes map[string]int64 `json:"memoryBytes"`
	RelistsBy   map[string]int   `json:"relistsBy,omitempty"`
	Reflector   *reflectorState  `json:"reflector,omitempty"`
}

func proxyOf(p registry.Named[registry.Proxy]) proxy {
	out := proxy{Name: p.Name, ProxyState: p.Value.State(), Resources: []resource{}}
	for _, r := range out.ProxyState.Resources {
		one := resource{ProxyResource: r, RawBytes: r.Memory.Raw, MemoryBytes: memoryOf(r.Memory), RelistsBy: relistsBy(r.Relists)}
		if r.Reflector != nil {
			of := reflectorOf(*r.Reflector, r.Transitions)
			one.Reflector = &of
		}
		out.Resources = append(out.Resources, one)
	}
	return out
}
