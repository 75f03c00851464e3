package columns

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Columns that several kinds have.
var (
	replicas = []column{
		name, number("Desired", "spec.replicas"), number("Current", "status.replicas"), number("Ready", "status.readyReplicas"), age,
	}
	readyOf = col("Ready", func(o value) string {
		return fmt.Sprintf("%d/%d", o.at("status.readyReplicas").num(), o.at("spec.replicas").num())
	})
	phase = col("Status", func(o value) string {
		if o.deleting() {
			return "Terminating"
		}
		return o.at("status.phase").str()
	})
	storageClass = col("StorageClass", func(o value) string {
		const beta = "volume.beta.kubernetes.io/storage-class"
		return o.at("metadata.annotations").field(beta).or(o.at("spec.storageClassName").str())
	})
	bindingColumns = []column{
		name,
		col("Role", func(o value) string { return reference(o.at("roleRef")) }),
		age,
		col("Users", func(o value) string { return subjects(o, "User") }).wide(),
		col("Groups", func(o value) string { return subjects(o, "Group") }).wide(),
		col("ServiceAccounts", func(o value) string { return subjects(o, "ServiceAccount") }).wide(),
	}
	paramKind = col("ParamKind", func(o value) string {
		if k := o.at("spec.paramKind"); k.exists() {
			return k.at("apiVersion").str() + "/" + k.at("kind").str()
		}
		return unset
	})
	paramRef = col("ParamRef", func(o value) string {
		ref := o.at("spec.paramRef")
		switch name := ref.at("name").str(); {
		case name != "":
			return cmp.Or(ref.at("namespace").str(), "*") + "/" + name
		case ref.at("selector").exists():
			return ref.at("selector").selector().String()
		}
		return unset
	})
)

// templateColumns returns the columns that describe a pod template.
func templateColumns(template string) []column {
	return []column{
		joined("Containers", template+".spec.containers", "name", "").wide(),
		joined("Images", template+".spec.containers", "image", "").wide(),
	}
}

func labelsOf(name, path string) column {
	return col(name, func(o value) string { return o.at(path).labels() })
}

func selectorOf(name, path string) column {
	return col(name, func(o value) string { return metav1.FormatLabelSelector(o.at(path).selector()) })
}

// quantityIn returns a column with the amount of storage in a map of resources.
func quantityIn(name, path string) column {
	return col(name, func(o value) string { return o.at(path).field("storage").or("0") })
}

// onceBound returns the column with empty cells for claims that have no volume.
func onceBound(c column) column {
	cell := c.cell
	c.cell = func(o value) any {
		if o.at("spec.volumeName").str() == "" {
			return ""
		}
		return cell(o)
	}
	return c
}

// numberWith returns a column with a number in an optional struct. If the struct is absent, the
// cell is "<none>".
func numberWith(name, path, field string) column {
	return column{metav1.TableColumnDefinition{Name: name, Type: "string"}, func(o value) any {
		if s := o.at(path); s.exists() {
			return s.at(field).num()
		}
		return none
	}}
}

// reference formats a reference as kind/name.
func reference(ref value) string { return ref.at("kind").str() + "/" + ref.at("name").str() }

// firstOf joins the first texts of a list, and says how many follow.
func firstOf(list []string, most int, separator string) string {
	if len(list) > most {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:most], separator), len(list)-most)
	}
	return strings.Join(list, separator)
}

// eventColumns returns the columns of events. The two groups that have events call the same fields
// differently.
func eventColumns(about, note, controller, source, first, last, times string) []column {
	firstSeen := func(o value) string {
		if t := o.at(first).time(); !t.IsZero() {
			return sinceTime(t, o.row.now)
		}
		return o.at("eventTime").since()
	}
	return []column{
		col("Last Seen", func(o value) string {
			if s := o.at("series"); s.exists() {
				return s.at("lastObservedTime").since()
			}
			if t := o.at(last).time(); !t.IsZero() {
				return sinceTime(t, o.row.now)
			}
			return firstSeen(o)
		}),
		text("Type", "type"),
		text("Reason", "reason"),
		col("Object", func(o value) string {
			kind, name := strings.ToLower(o.at(about+".kind").str()), o.at(about+".name").str()
			if name == "" {
				return kind
			}
			return kind + "/" + name
		}),
		text("Subobject", about+".fieldPath").wide(),
		col("Source", func(o value) string {
			component := cmp.Or(o.at(source+".component").str(), o.at(controller).str())
			host := cmp.Or(o.at(source+".host").str(), o.at("reportingInstance").str())
			if host == "" {
				return component
			}
			return component + ", " + host
		}).wide(),
		col("Message", func(o value) string { return strings.TrimSpace(o.at(note).str()) }),
		col("First Seen", firstSeen).wide(),
		col("Count", func(o value) int64 {
			if s := o.at("series"); s.exists() {
				return s.at("count").num()
			}
			return cmp.Or(o.at(times).num(), 1)
		}).asText().wide(),
		name.wide(),
	}
}

func nodeStatus(o value) string {
	status := "Unknown"
	for _, c := range o.list("status.conditions") {
		if c.at("type").str() == "Ready" { // the last one counts
			status = map[bool]string{true: "Ready", false: "NotReady"}[c.at("status").str() == "True"]
		}
	}
	if o.at("spec.unschedulable").is() {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeRoles(o value) string {
	var roles []string
	for label, v := range o.at("metadata.labels").pairs() {
		role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/")
		if !ok && label == "kubernetes.io/role" {
			role, ok = v, true
		}
		if ok && role != "" {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	return cmp.Or(strings.Join(slices.Compact(roles), ","), none)
}

func nodeAddress(o value, kind string) string {
	for _, a := range o.list("status.addresses") {
		if a.at("type").str() == kind {
			return a.at("address").str()
		}
	}
	return none
}

func accessModes(modes value) string {
	var short []string
	given := modes.texts("")
	for _, m := range [][2]string{{"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"}} {
		if slices.Contains(given, m[0]) {
			short = append(short, m[1])
		}
	}
	return strings.Join(short, ",")
}

// quotas lists the used and the allowed amounts of a ResourceQuota: those of limits, or the others.
func quotas(o value, limits bool) string {
	var all []string
	for _, r := range slices.Sorted(maps.Keys(o.at("status.hard").pairs())) {
		if strings.HasPrefix(r, "limits.") == limits {
			all = append(all, fmt.Sprintf("%s: %s/%s", r, o.at("status.used").field(r).or("0"), o.at("status.hard").field(r).str()))
		}
	}
	return strings.Join(all, ", ")
}

func subjects(o value, kind string) string {
	var all []string
	for _, s := range o.list("subjects") {
		if s.at("kind").str() != kind {
			continue
		}
		name := s.at("name").str()
		if kind == "ServiceAccount" {
			name = s.at("namespace").str() + "/" + name
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

func servedVersions(o value) string {
	var all []string
	for _, v := range o.list("spec.versions") {
		if name := v.at("name").str(); v.at("served").is() {
			if v.at("storage").is() {
				name += "(storage)"
			}
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func serviceOfAPI(o value) string {
	s := o.at("spec.service")
	if !s.exists() {
		return "Local"
	}
	return s.at("namespace").str() + "/" + s.at("name").str()
}

func availability(o value) string {
	c := o.condition("Available")
	status, reason := c.at("status").or("Unknown"), c.at("reason").str()
	if status == "True" || reason == "" {
		return status
	}
	return fmt.Sprintf("%s (%s)", status, reason)
}

func requestedDuration(o value) string {
	seconds := o.at("spec.expirationSeconds")
	if !seconds.exists() {
		return none
	}
	return duration.HumanDuration(time.Duration(seconds.num()) * time.Second)
}

func csrStatus(o value) string {
	has := func(kind string) bool { return o.condition(kind).exists() }
	status := "Pending"
	switch {
	case has("Denied"):
		status = "Denied"
	case has("Approved"):
		status = "Approved"
	}
	if has("Failed") {
		status += ",Failed"
	}
	if o.at("status.certificate").len() > 0 {
		status += ",Issued"
	}
	return status
}

// lastCondition returns the type of the last condition that has one of the types and, if status is
// not empty, this status.
func lastCondition(o value, status, otherwise string, types ...string) string {
	for _, c := range o.list("status.conditions") {
		if kind := c.at("type").str(); slices.Contains(types, kind) && (status == "" || c.at("status").str() == status) {
			otherwise = kind
		}
	}
	return otherwise
}

func claimState(o value) string {
	state := "pending"
	if o.at("status.allocation").exists() {
		state = "allocated"
		if o.at("status.reservedFor").len() > 0 {
			state += ",reserved"
		}
	}
	if o.deleting() {
		return strings.TrimSuffix("deleted,"+state, ",pending")
	}
	return state
}
