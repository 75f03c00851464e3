package columns

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// endpoints lists the addresses of Endpoints, each with each port.
func endpoints(o value) string {
	subsets := o.list("subsets")
	var all []string
	for _, s := range subsets {
		addresses, ports := s.at("addresses").texts("ip"), s.at("ports").texts("port")
		if len(ports) == 0 {
			all = append(all, addresses...)
		}
		for _, port := range ports {
			for _, a := range addresses {
				all = append(all, net.JoinHostPort(a, port))
			}
		}
	}
	if len(subsets) == 0 {
		return none
	}
	return firstOf(all, 3, ",")
}

func slicePorts(o value) string {
	var ports []string
	for _, p := range o.list("ports") {
		ports = append(ports, p.at("port").or(p.at("name").or("*")))
	}
	return cmp.Or(firstOf(ports, 3, ","), unset)
}

func sliceEndpoints(o value) string {
	var all []string
	for _, e := range o.list("endpoints") {
		all = append(all, e.at("addresses").texts("")...)
	}
	return cmp.Or(firstOf(all, 3, ","), unset)
}

// balancers lists the addresses of load balancers.
func balancers(o value) string {
	var all []string
	for _, i := range o.list("status.loadBalancer.ingress") {
		if a := cmp.Or(i.at("ip").str(), i.at("hostname").str()); a != "" {
			all = append(all, a)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

func externalIP(o value) string {
	all, absent := o.at("spec.externalIPs").texts(""), none
	switch o.at("spec.type").str() {
	case "ClusterIP", "NodePort":
	case "LoadBalancer":
		if absent = "<pending>"; balancers(o) != "" {
			all = slices.Insert(all, 0, balancers(o))
		}
	case "ExternalName":
		return o.at("spec.externalName").str()
	default:
		return "<unknown>"
	}
	if len(all) == 0 {
		return absent
	}
	return strings.Join(all, ",")
}

func servicePorts(o value) string {
	var all []string
	for _, p := range o.list("spec.ports") {
		port := p.at("port").str()
		if node := p.at("nodePort").num(); node > 0 {
			port = fmt.Sprintf("%s:%d", port, node)
		}
		all = append(all, port+"/"+p.at("protocol").str())
	}
	return cmp.Or(strings.Join(all, ","), none)
}

// hosts lists the hosts of an Ingress. The rules that follow the third host count as more, whether
// or not they have one.
func hosts(o value) string {
	rules := o.at("spec.rules").texts("host")
	var first []string
	for _, host := range rules {
		if len(first) == 3 {
			return fmt.Sprintf("%s + %d more...", strings.Join(first, ","), len(rules)-3)
		}
		if host != "" {
			first = append(first, host)
		}
	}
	return cmp.Or(strings.Join(first, ","), "*")
}

func nameOfDefault(o value, annotation string) string {
	name := o.at("metadata.name").str()
	if o.at("metadata.annotations").field(annotation).str() == "true" {
		name += " (default)"
	}
	return name
}

func ingressParameters(o value) string {
	p := o.at("spec.parameters")
	if !p.exists() {
		return none
	}
	kind := p.at("kind").str()
	if group := p.at("apiGroup"); group.exists() {
		kind += "." + group.str()
	}
	return kind + "/" + p.at("name").str()
}

func parentRef(o value) string {
	ref := o.at("spec.parentRef")
	if !ref.exists() {
		return none
	}
	of := strings.ToLower(schema.GroupResource{Group: ref.at("group").str(), Resource: ref.at("resource").str()}.String())
	if ns := ref.at("namespace").str(); ns != "" {
		of += "/" + ns
	}
	return of + "/" + ref.at("name").str()
}
