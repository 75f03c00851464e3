package columns

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// pod is the state of a pod's containers, in the form that kubectl shows.
type pod struct {
	ready, total int
	status       string
	restarts     restarts
}

// restarts counts the restarts of containers.
type restarts struct {
	count int64
	last  time.Time // of the end of the last ended run, the zero time if it is not known
}

func (r *restarts) add(status value) {
	r.count += status.at("restartCount").num()
	if end := status.at("lastState.terminated.finishedAt").time(); end.After(r.last) {
		r.last = end
	}
}

func (r *restarts) text(now time.Time) string {
	if r.count == 0 || r.last.IsZero() {
		return strconv.FormatInt(r.count, 10)
	}
	return fmt.Sprintf("%d (%s ago)", r.count, sinceTime(r.last, now))
}

// podOf returns the state of a pod. A sidecar (an init container that always restarts) counts as a
// container. Of other init containers only restarts count, and only until the pod is initialized.
func podOf(o value) *pod {
	if o.row.pod != nil {
		return o.row.pod
	}
	p := &pod{
		total:  o.at("spec.containers").len(),
		status: cmp.Or(o.at("status.reason").str(), o.at("status.phase").str()),
	}
	for _, c := range o.list("status.conditions") {
		if c.at("type").str() == "PodScheduled" && c.at("reason").str() == "SchedulingGated" {
			p.status = "SchedulingGated"
		}
	}
	if initialized := p.addInit(o); initialized || o.holds("Initialized") {
		p.addContainers(o)
	}
	switch phase := o.at("status.phase").str(); {
	case !o.deleting():
	case o.at("status.reason").str() == "NodeLost":
		p.status = "Unknown"
	case phase != "Succeeded" && phase != "Failed":
		p.status = "Terminating"
	}
	o.row.pod = p
	return p
}

// addInit adds the init containers. It returns false, and sets the status, if one of them still
// runs, waits or has failed. The restarts are then those of all init containers, and otherwise
// those of sidecars.
func (p *pod) addInit(o value) (initialized bool) {
	sidecars := map[string]bool{}
	containers := o.list("spec.initContainers")
	for _, c := range containers {
		always := c.at("restartPolicy").str() == "Always"
		if sidecars[c.at("name").str()] = always; always {
			p.total++
		}
	}
	var all, ofSidecars restarts
	for i, s := range o.list("status.initContainerStatuses") {
		all.add(s)
		sidecar := sidecars[s.at("name").str()]
		if sidecar {
			ofSidecars.add(s)
		}
		ended, waits := s.at("state.terminated"), s.at("state.waiting.reason").str()
		switch {
		case ended.exists() && ended.at("exitCode").num() == 0:
			continue
		case sidecar && s.at("started").is():
			if s.at("ready").is() {
				p.ready++
			}
			continue
		case ended.exists():
			p.status = "Init:" + reasonOf(ended)
		case waits != "" && waits != "PodInitializing":
			p.status = "Init:" + waits
		default:
			p.status = fmt.Sprintf("Init:%d/%d", i, len(containers))
		}
		p.restarts = all
		if o.holds("Initialized") { // a sidecar failed later
			p.restarts = ofSidecars
		}
		return false
	}
	p.restarts = ofSidecars
	return true
}

// addContainers adds the containers of a pod that is or was initialized. The first container that
// waits or has ended determines the status.
func (p *pod) addContainers(o value) {
	running, failed := false, ""
	statuses := o.list("status.containerStatuses")
	for _, s := range slices.Backward(statuses) {
		p.restarts.add(s)
		ended, waits := s.at("state.terminated"), s.at("state.waiting.reason").str()
		switch {
		case waits != "":
			p.status = waits
		case ended.exists():
			p.status = reasonOf(ended)
			if ended.at("exitCode").num() != 0 {
				failed = p.status
			}
		case s.at("ready").is() && s.at("state.running").exists():
			running = true
			p.ready++
		}
	}
	if p.status == "Completed" { // of one container; others may run or have failed
		switch ready := hasTrue(o, "Ready"); {
		case running && ready:
			p.status = "Running"
		case failed != "":
			p.status = failed
		case running:
			p.status = "NotReady"
		}
	}
}

// reasonOf returns why a container has ended.
func reasonOf(ended value) string {
	if signal := ended.at("signal").num(); signal != 0 {
		return cmp.Or(ended.at("reason").str(), fmt.Sprintf("Signal:%d", signal))
	}
	return cmp.Or(ended.at("reason").str(), fmt.Sprintf("ExitCode:%d", ended.at("exitCode").num()))
}

// hasTrue reports whether one of the conditions has this type and the status True.
func hasTrue(o value, kind string) bool {
	return slices.ContainsFunc(o.list("status.conditions"), func(c value) bool {
		return c.at("type").str() == kind && c.at("status").str() == "True"
	})
}

// readinessGates returns how many of a pod's readiness gates are open.
func readinessGates(o value) string {
	gates, open := o.list("spec.readinessGates"), 0
	for _, g := range gates {
		if o.holds(g.at("conditionType").str()) {
			open++
		}
	}
	if len(gates) == 0 {
		return none
	}
	return fmt.Sprintf("%d/%d", open, len(gates))
}

var podColumns = []column{
	name,
	col("Ready", func(o value) string { p := podOf(o); return fmt.Sprintf("%d/%d", p.ready, p.total) }),
	col("Status", func(o value) string { return podOf(o).status }),
	col("Restarts", func(o value) string { p := podOf(o); return p.restarts.text(o.row.now) }),
	age,
	text("IP", "status.podIP", none).wide(),
	text("Node", "spec.nodeName", none).wide(),
	text("Nominated Node", "status.nominatedNodeName", none).wide(),
	col("Readiness Gates", readinessGates).wide(),
}
