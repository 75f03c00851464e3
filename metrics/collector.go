package metrics

import (
	"cmp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/wire"
)

// NewCollector returns a collector of the metrics of all informers that run in this process. It
// includes informers that started before this call. An informer has metrics from the start to the
// end of its Run. If several informers share a name, the collector appends a number to the names of
// the later informers, starting with #2. The collector has no state and no goroutine. It is safe
// for concurrent use. A registry accepts only one such collector.
func NewCollector() prometheus.Collector { return collector{time.Now} }

type collector struct{ now func() time.Time }

// Describe implements prometheus.Collector.
func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		to <- d
	}
	to <- unadoptedDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	eachInformer(to, func(i *informer) {
		i.state(c.now())
		i.contents()
		i.requests()
		i.handlers()
		i.comparison()
	})
	for field, n := range registry.Unadopted() {
		to <- prometheus.MustNewConstMetric(unadoptedDesc, prometheus.CounterValue, float64(n), valid(field))
	}
}

func eachInformer(to chan<- prometheus.Metric, send func(*informer)) {
	for _, e := range engine.Running() {
		labels, resource := labelsOf(e)
		send(&informer{to: to, labels: labels, resource: resource, engine: e.Value})
	}
}

type informer struct {
	to       chan<- prometheus.Metric
	labels   []string
	resource string // a label of client-go's metrics, in place of the kind
	engine   *engine.Engine
}

// labelsOf returns the values of the labels that all metrics have (name, group, version, kind), and
// the resource. Until the server has sent an object, only the name is not empty.
func labelsOf(e registry.Named[*engine.Engine]) (labels []string, resource string) {
	for _, s := range e.Value.Statuses() {
		if s.ItemType == (wire.TypeMeta{}) {
			continue
		}
		group, version, found := strings.Cut(s.ItemType.APIVersion, "/")
		if !found {
			group, version = "", group
		}
		resource = cmp.Or(s.Resource, guessResource(group, version, s.ItemType.Kind))
		return []string{e.Name, valid(group), valid(version), valid(s.ItemType.Kind)}, valid(resource)
	}
	return []string{e.Name, "", "", ""}, ""
}

// valid returns text with invalid UTF-8 replaced: Prometheus rejects all metrics if one label is
// not valid UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

func (i *informer) gauge(d *prometheus.Desc, value float64, more ...string) {
	i.send(d, prometheus.GaugeValue, value, more)
}

func (i *informer) counter(d *prometheus.Desc, value float64, more ...string) {
	i.send(d, prometheus.CounterValue, value, more)
}

func (i *informer) send(d *prometheus.Desc, t prometheus.ValueType, value float64, more []string) {
	values := append(i.labels[:len(i.labels):len(i.labels)], more...)
	i.to <- prometheus.MustNewConstMetric(d, t, value, values...)
}

// state sends the informer's sync state, ages, errors and relists. If the informer has several
// reflectors, it sends the worst value or the sum.
func (i *informer) state(now time.Time) {
	synced, heard, current, failing, attempts, skipped, inParts := true, now, now, 0, 0, 0, 0
	for _, s := range i.engine.Statuses() {
		synced = synced && s.Synced
		if s.Heard.Before(heard) {
			heard = s.Heard
		}
		if s.CurrentAt.Before(current) {
			current = s.CurrentAt
		}
		if s.Err != nil {
			failing++
		}
		attempts = max(attempts, s.Attempts)
		skipped += s.Skipped
		inParts += s.RelistsInParts
	}
	i.gauge(syncedDesc, number(synced))
	if !heard.IsZero() { // without contact there is no age
		i.gauge(ageDesc, now.Sub(heard).Seconds())
	}
	if !current.IsZero() {
		i.gauge(stateAgeDesc, now.Sub(current).Seconds())
	}
	i.gauge(failingDesc, float64(failing))
	i.gauge(attemptsDesc, float64(attempts))
	for reason, n := range i.engine.Relists().All() {
		i.counter(relistsDesc, float64(n), reason.String())
	}
	i.counter(inPartsDesc, float64(inParts))
	i.gauge(unreadableDesc, float64(skipped))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// contents sends the number of the informer's objects and the memory that they use.
func (i *informer) contents() {
	store := i.engine.Store()
	i.gauge(objectsDesc, float64(store.Len()))
	if rv, ok := digits(store.ResourceVersion()); ok {
		i.gauge(resourceVersionDesc, rv)
	}
	m := store.Memory()
	i.gauge(rawDesc, float64(m.Raw))
	for _, p := range m.Purposes() {
		i.gauge(memoryDesc, float64(p.Bytes), p.Name)
	}
	hits, misses := store.DecodedReads()
	i.counter(decodedReadsDesc, float64(hits), "hit")
	i.counter(decodedReadsDesc, float64(misses), "miss")
}

func (i *informer) requests() {
	r := i.engine.Requests()
	if r == nil {
		return
	}
	lists, watches := r.Lists.Load(), r.Watches.Load()
	i.counter(requestsDesc, float64(lists), "list")
	i.counter(requestsDesc, float64(watches), "watch")
	i.counter(wireDesc, float64(r.WireBytes.Load()))
	i.counter(bodyDesc, float64(r.BodyBytes.Load()))
}

// comparison sends what the comparison of an informer with its shadow has found.
func (i *informer) comparison() {
	c := i.engine.Comparison()
	if c == nil {
		return
	}
	i.counter(differencesDesc, float64(c.Differences.Load()))
	for result, n := range map[string]*atomic.Int64{"content": &c.Objects, "event": &c.Events, "only-weir": &c.OnlyWeir, "only-client-go": &c.OnlyClientGo, "not-comparable": &c.Unjudged} {
		i.counter(comparedDesc, float64(n.Load()), result)
	}
}

// handlerState is the combined state of an informer's handlers with the same name. Drop-ins name a
// handler after its Go type, so several handlers can share a name. A gauge has the worst value of
// these handlers. The totals include removed handlers, because a counter must not fall.
type handlerState struct {
	lag, pending, busy, longest float64
	synced                      bool
	totals                      engine.Totals
}

func (s *handlerState) add(group engine.HandlerGroup) {
	s.totals = s.totals.Plus(group.Left)
	for _, r := range group.Leaving {
		s.totals = s.totals.Plus(engine.TotalsOf(r.Stats()))
	}
	for _, r := range group.Handlers {
		one := r.Stats()
		s.totals = s.totals.Plus(engine.TotalsOf(one))
		s.lag = max(s.lag, float64(one.Lag))
		s.pending = max(s.pending, float64(one.Pending))
		s.busy = max(s.busy, one.Busy.Seconds())
		s.longest = max(s.longest, one.Longest.Seconds())
		s.synced = s.synced && r.HasSynced()
	}
}

func (i *informer) handlers() {
	byName := map[string]*handlerState{}
	for name, group := range i.engine.HandlerGroups() {
		name = valid(name)
		s := byName[name]
		if s == nil {
			s = &handlerState{synced: true}
			byName[name] = s
		}
		s.add(group)
	}
	for name, s := range byName {
		i.counter(handledDesc, float64(s.totals.Handled), name)
		i.counter(panicsDesc, float64(s.totals.Panics), name)
		i.gauge(lagDesc, s.lag, name)
		i.gauge(pendingDesc, s.pending, name)
		i.gauge(busyDesc, s.busy, name)
		i.gauge(longestDesc, s.longest, name)
		i.counter(spentDesc, s.totals.Spent.Seconds(), name)
		i.gauge(handlerSyncedDesc, number(s.synced), name)
	}
}
