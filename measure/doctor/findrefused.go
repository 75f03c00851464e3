package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const FindingRefused = "refused"

var refusedKind = &kind{
	name:     FindingRefused,
	does:     "occupied the seats while requests were refused with 429",
	from:     "50 refusals; meanwhile 30 % and 10 s of the time of all LISTs, and a seat for 5 % of the time",
	incident: "thundering-restart",
	findAll:  (*Doctor).refusals,

	metricsDo: "requests are refused with 429, by priority level and flow schema", metricsFrom: "one",
	ofLevel: findRefused,
}

const (
	refusedFewest = 50  // a server that starts refuses some requests
	seatShare     = 0.3 // of all LISTs' time; no client is named if the first one has less
	nameableShare = 0.05
	seatTakers    = 3 // the largest number of clients that are named
	// Clients are named only if the LISTs of at least one client had seats for long enough: for at
	// least seatFewest, and for at least the share seatBusy of the time in which requests were
	// refused. Without these limits, a client could be named for a single LIST of some milliseconds.
	seatFewest = 10 * time.Second
	seatBusy   = 0.05

	// A LIST that seems to last longer than longestSeat has a wrong time: the server ends a LIST after
	// a minute.
	longestSeat = 5 * time.Minute
)

// seats contains how long the LISTs of a client had seats while requests were refused.
type seats struct {
	client *client
	millis float64
}

// findRefused finds a priority level with requests that were refused with 429.
func findRefused(l *evidence.LevelMetrics, _ float64) (Finding, bool) {
	total, schemas := 0.0, []string{}
	for _, schema := range slices.SortedFunc(maps.Keys(l.Rejected), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.Rejected[b], l.Rejected[a]), cmp.Compare(a, b))
	}) {
		total += l.Rejected[schema]
		schemas = append(schemas, humanize.Rounded(l.Rejected[schema])+" "+schema)
	}
	return Finding{
		Count: int64(total),
		Text: fmt.Sprintf("%s requests of priority level %s were refused (429): by flow schema %s", humanize.Rounded(total), l.Name,
			strings.Join(schemas[:min(len(schemas), 3)], ", ")),
		Remedy: "an audit log shows which client occupied the seats (weir doctor AUDIT-LOG); a separate FlowSchema isolates one client from the others",
	}, total >= 1
}

// refusals returns a finding if an overloaded server refused requests with 429. The finding names
// the clients whose LISTs had the seats at that time.
func (d *Doctor) refusals() []Finding {
	if d.total.Refused < refusedFewest {
		return nil
	}
	takers, all := d.seatTakers()
	f := Finding{
		Count: d.total.Refused,
		Remedy: "reduce these LISTs; until then, give the client a separate FlowSchema and " +
			"PriorityLevelConfiguration",
	}
	text := fmt.Sprintf("%s requests were refused with 429, %s", humanize.Count(d.total.Refused), d.mostRefused())
	if len(takers) == 0 || takers[0].millis < max(seatShare*all, d.minSeatMillis()) {
		f.Text = text + "; no client's LISTs were conspicuous meanwhile"
		f.Remedy = "find the priority level whose queues were full: apiserver_flowcontrol_rejected_requests_total"
		return []Finding{f}
	}
	f.Client, f.Seconds = takers[0].client.name, takers[0].millis/1000
	f.Change = ofSchema(f.Client)
	var had []string
	for i, t := range takers {
		if i > 0 && t.millis < nameableShare*all {
			break
		}
		had = append(had, fmt.Sprintf("%s %.0f%%", t.client.name, 100*t.millis/all))
	}
	f.Text = "occupied the seats while " + text + ". Of the time of all LISTs meanwhile, " + strings.Join(had, ", ")
	return []Finding{f}
}

// seatTakers returns the clients whose LISTs had seats for the longest time while requests were
// refused. The second result is this time for the LISTs of all clients together.
func (d *Doctor) seatTakers() (takers []seats, all float64) {
	refused := d.refused.fold(&d.clock)
	for _, c := range d.clients.least {
		s := seats{client: c}
		for bucket, millis := range c.listTime.fold(&d.clock) {
			if bucket < len(refused) && refused[bucket] > 0 {
				s.millis += float64(millis)
			}
		}
		if all += s.millis; s.millis > 0 {
			takers = append(takers, s)
		}
	}
	slices.SortFunc(takers, func(a, b seats) int {
		return cmp.Or(cmp.Compare(b.millis, a.millis), cmp.Compare(a.client.name.String(), b.client.name.String()))
	})
	return takers[:min(len(takers), seatTakers)], all
}

// mostRefused returns a text that names the client with the most refused requests.
func (d *Doctor) mostRefused() string {
	most := slices.MaxFunc(d.clients.least, func(a, b *client) int {
		return cmp.Or(cmp.Compare(a.total.Refused, b.total.Refused), cmp.Compare(b.name.String(), a.name.String()))
	})
	return fmt.Sprintf("%s of those of %s", humanize.Count(most.total.Refused), most.name)
}

// minSeatMillis returns a time in milliseconds. Clients are named only if the LISTs of at least one
// client had seats for at least this time.
func (d *Doctor) minSeatMillis() float64 {
	n := 0
	for _, refused := range d.refused.fold(&d.clock) {
		if refused > 0 {
			n++
		}
	}
	return max(float64(seatFewest.Milliseconds()), seatBusy*float64(n)*float64(d.clock.width())/1000)
}

// addSeat records when a LIST had seats. It had none while it waited in a queue, or if it was
// refused.
func (c *client) addSeat(clock *clock, e *evidence.Event) {
	if e.Refused() {
		return
	}
	at := max(e.Begun()+e.QueueWait.Microseconds(), e.Staged-longestSeat.Microseconds())
	if c.listPeak == nil {
		c.listPeak = &peak{}
	}
	c.listPeak.add(at, e.Staged)
	at = max(at, clock.origin)
	for at < e.Staged {
		bucket := clock.bucket(at)
		end := min(e.Staged, clock.origin+int64(bucket+1)*clock.width())
		c.listTime.add(clock, bucket, uint32((end-at)/1000))
		at = end
	}
}

// ofSchema returns the subjects of a FlowSchema that gives a client a separate priority level.
func ofSchema(c Client) string {
	subject := fmt.Sprintf("{kind: User, user: {name: %q}}", c.User)
	account, ok := strings.CutPrefix(c.User, "system:serviceaccount:")
	if namespace, name, two := strings.Cut(account, ":"); ok && two {
		subject = fmt.Sprintf("{kind: ServiceAccount, serviceAccount: {namespace: %q, name: %q}}", namespace, name)
	}
	if c.User == nodes {
		subject = `{kind: Group, group: {name: "system:nodes"}}`
	}
	return "subjects: [" + subject + "] # of a FlowSchema whose resourceRules have verbs: [list]"
}
