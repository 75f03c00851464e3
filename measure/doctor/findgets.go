package doctor

import (
	"fmt"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
)

const (
	FindingGets = "gets"

	// getsWatched is the most objects that a client can WATCH one by one.
	getsWatched = 100
)

var getsKind = &kind{
	name: FindingGets,
	does: "GETs the same objects again and again",
	from: "1 GET a minute of each object that cost 5 s of CPU an hour, by the measured model: 4 a second; on each machine where there are 20",
	find: findGets, apart: true,
	change: func(a api, _ *usage) string {
		of := ""
		switch {
		case a.method == "":
			of = ".ByNamespace(namespace)"
		case !a.cluster:
			of = fmt.Sprintf(".%s(namespace)", a.method)
		}
		return a.informer() + ".Lister()" + of + ".Get(name) // in the place of a GET"
	},
	kubectl: watchOnce,
	asks: func(w *whatIfCase) []batch {
		return []batch{{c: w.c.name, size: w.size, work: w.d.getWork(w.c.name, w.u.resource, float64(w.u.gets.count))}}
	},
	remedies: []remedy{watchedOne, newInformer},
}

// findGets finds GETs of the same objects that cost much.
func findGets(u subject) (Finding, bool) {
	_, sub, _ := strings.Cut(u.resource, "/")
	if u.gets == nil || thresholds() == nil || sub != "" && sub != "status" || strings.HasSuffix(u.resource, unwatchable) {
		return Finding{}, false
	}
	rate, object, where := u.rates(u.gets)
	if object < oftenPerHour || thresholds().Server.Of(u.d.getWork(u.c.name, u.resource, rate)).CPUSeconds < wasteful {
		return Finding{}, false
	}
	return Finding{
		Count: u.gets.count, Seconds: u.gets.latency.Seconds(),
		Text: fmt.Sprintf("GETs %s up to %s times a second%s: %s GETs of about %s objects", u.resource,
			humanize.Number(rate/3600), where, humanize.Count(u.gets.count), humanize.Count(int64(u.gets.objects.count()))),
		Remedy: "hold an informer and read its cache; of one object it is a WATCH with fieldSelector=metadata.name=NAME",
	}, true
}

// watchedOne predicts a WATCH of each of the objects, on each machine.
func watchedOne(w *whatIfCase) (Prediction, bool) {
	objects := float64(w.u.gets.objects.count())
	b := batch{c: w.c.name, size: w.size, work: w.d.getWork(w.c.name, w.u.resource, w.machines*objects)}.initial()
	b.work.Connections, b.work.EventBytes = w.machines, w.size.Bytes
	b.work.Events = w.machines * w.d.census.writes(w.size.Resource) * min(1, objects/float64(max(1, w.d.census.objects(w.size.Resource))))
	return w.predict(RemedyWatchOne, []batch{b}), objects <= getsWatched
}
