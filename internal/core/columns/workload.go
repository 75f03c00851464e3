package columns

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
)

// deploymentSelector formats invalid and empty selectors differently than [selectorOf] does.
func deploymentSelector(o value) string {
	s, err := metav1.LabelSelectorAsSelector(o.at("spec.selector").selector())
	if err != nil {
		return "<invalid>"
	}
	return s.String()
}

// controller returns the controller of an object, as kind.group/name.
func controller(o value) string {
	for _, owner := range o.list("metadata.ownerReferences") {
		if !owner.at("controller").is() {
			continue
		}
		gv, err := schema.ParseGroupVersion(owner.at("apiVersion").str())
		kind := gv.WithKind(owner.at("kind").str()).GroupKind()
		if err != nil || kind.Empty() {
			return owner.at("name").str()
		}
		return strings.ToLower(kind.String()) + "/" + owner.at("name").str()
	}
	return none
}

func jobStatus(o value) string {
	switch {
	case o.holds("Complete"):
		return "Complete"
	case o.holds("Failed"):
		return "Failed"
	case o.deleting():
		return "Terminating"
	}
	for _, kind := range []string{"Suspended", "FailureTarget", "SuccessCriteriaMet"} {
		if o.holds(kind) {
			return kind
		}
	}
	return "Running"
}

func completions(o value) string {
	succeeded, parallelism := o.at("status.succeeded").num(), o.at("spec.parallelism").num()
	switch wanted := o.at("spec.completions"); {
	case wanted.exists():
		return fmt.Sprintf("%d/%d", succeeded, wanted.num())
	case parallelism > 1:
		return fmt.Sprintf("%d/1 of %d", succeeded, parallelism)
	}
	return fmt.Sprintf("%d/1", succeeded)
}

func jobDuration(o value) string {
	start, end := o.at("status.startTime"), o.at("status.completionTime")
	switch {
	case !start.exists():
		return ""
	case !end.exists():
		return duration.HumanDuration(o.row.now.Sub(start.time()))
	}
	return duration.HumanDuration(end.time().Sub(start.time()))
}

// hpaTargets lists the current and the wanted values of the metrics of a HorizontalPodAutoscaler.
func hpaTargets(o value) string {
	current := o.list("status.currentMetrics")
	var all []string
	for i, m := range o.list("spec.metrics") {
		kind := m.at("type").str()
		field, ok := map[string]string{
			"External": "external", "Object": "object", "Pods": "pods", "Resource": "resource", "ContainerResource": "containerResource",
		}[kind]
		if !ok {
			all = append(all, "<unknown type>")
			continue
		}
		var now value
		if i < len(current) {
			now = current[i].at(field)
		}
		all = append(all, hpaTarget(kind, m.at(field), now))
	}
	if len(all) == 0 {
		return none
	}
	return firstOf(all, 2, ", ")
}

func hpaTarget(kind string, m, now value) string {
	const unknown, missing = "<unknown>", "<nil>"
	average := m.at("target.averageValue")
	// known returns a field of the current value, or absent if only the field is absent.
	known := func(field, absent string) string {
		if !now.exists() {
			return unknown
		}
		return now.at("current." + field).or(absent)
	}
	switch kind {
	case "External", "Object":
		if average.exists() {
			return fmt.Sprintf("%s/%s (avg)", known("averageValue", unknown), average.str())
		}
		return fmt.Sprintf("%s/%s", known("value", missing), m.at("target.value").or(missing))
	case "Pods":
		return fmt.Sprintf("%s/%s", known("averageValue", missing), average.or(missing))
	}
	if average.exists() {
		return fmt.Sprintf("%s: %s/%s", m.at("name").str(), known("averageValue", missing), average.str())
	}
	percent := func(v value, absent string) string {
		if !v.exists() {
			return absent
		}
		return v.str() + "%"
	}
	return fmt.Sprintf("%s: %s/%s", m.at("name").str(), percent(now.at("current.averageUtilization"), unknown),
		percent(m.at("target.averageUtilization"), "<auto>"))
}
