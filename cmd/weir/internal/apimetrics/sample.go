package apimetrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrNotAPIServer is returned by Read if the metrics are not those of a kube-apiserver.
var ErrNotAPIServer = errors.New("no metrics of a kube-apiserver")

// Sample is one reading. Its counters began with the process.
type Sample struct {
	Version    string  // such as v1.37.2; empty where it is not told
	Started    float64 // of the process, in Unix seconds
	CPUSeconds float64
	RSSBytes   float64
	Allocated  float64 // bytes, by Go's heap
	Requests   float64
	Refused    float64 // 429
	Failed     float64 // 5xx
	Resources  map[string]*Resource
	Levels     map[string]*Level

	known    bool                // a metric was read that only an API server has
	cacheOld map[string]listings // of the watch cache, as servers before 1.37 name it
	cacheNew bool                // the server names it as later ones do
}

// Resource is what is counted of one resource. A LIST is one request; so is each page.
type Resource struct {
	Name          string   `json:"resource"` // as kubectl has it, such as deployments.apps
	Objects       float64  `json:"objects"`  // that there are
	Bytes         float64  `json:"bytes"`    // of all of them, as stored; 0 where it is not told
	Lists         float64  `json:"lists"`
	ListSeconds   float64  `json:"listSeconds"`
	ListBytes     float64  `json:"listBytes"` // sent, before compression
	FailedLists   float64  `json:"failedLists"`
	Cache         listings `json:"watchCache"`        // LISTs that the watch cache answered
	Etcd          listings `json:"etcd"`              // LISTs that went on to etcd
	Checks        float64  `json:"consistencyChecks"` // each of which LISTs all from etcd
	OpenWatches   float64  `json:"openWatches"`
	EndedWatches  float64  `json:"endedWatches"`
	SlowWatches   float64  `json:"slowWatches"` // ended because their clients read too slowly
	WatchEvents   float64  `json:"watchEvents"`
	WatchBytes    float64  `json:"watchBytes"`
	InitialEvents float64  `json:"initialEvents"` // objects that WATCHes began with
}

// listings count LISTs and the objects that were looked at for them, and returned.
type listings struct {
	Lists    float64 `json:"lists"`
	Read     float64 `json:"read"`
	Returned float64 `json:"returned"`
}

// Level is what is counted of one priority level of API Priority and Fairness.
type Level struct {
	Name        string             `json:"priorityLevel"`
	Seats       float64            `json:"seats"` // in use
	Limit       float64            `json:"limit"` // of them
	Waited      float64            `json:"waited"`
	WaitSeconds float64            `json:"waitSeconds"` // of all that waited
	Rejected    map[string]float64 `json:"rejected,omitempty"`
}

// Read reads metrics in Prometheus' text format. It holds only those that it knows, a few hundred
// KB of the tens of MB that a large cluster's server writes.
func Read(r io.Reader) (*Sample, error) {
	s := &Sample{Resources: map[string]*Resource{}, Levels: map[string]*Level{}, cacheOld: map[string]listings{}}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLine)
	for scanner.Scan() {
		// The types in comments are passed over: without them a histogram's sum and count are metrics of
		// their own.
		line := scanner.Bytes()
		name := nameOf(line)
		take := metrics[name]
		if take == nil {
			continue
		}
		l, v, err := parseLine(string(line[len(name):]))
		if err != nil {
			return nil, fmt.Errorf("read /metrics: %s: %w", name, err)
		}
		take(s, l, v)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read /metrics: %w", err)
	}
	if !s.known || s.Started == 0 {
		return nil, ErrNotAPIServer
	}
	if !s.cacheNew {
		for name, l := range s.cacheOld {
			s.resource(name).Cache = l
		}
	}
	return s, nil
}

// resource returns the name of the resource that the labels have, as kubectl has it. Servers before
// 1.34 write it so themselves in some metrics.
func (l labels) resource() string {
	resource, group := l.get("resource"), l.get("group")
	if group == "" || strings.HasSuffix(resource, "."+group) {
		return resource
	}
	return resource + "." + group
}

// resource returns the counts of a resource. It adds empty ones if there are none.
func (s *Sample) resource(name string) *Resource {
	r := s.Resources[name]
	if r == nil {
		r = &Resource{Name: name}
		s.Resources[name] = r
	}
	return r
}

// level returns the counts of a priority level. It adds empty ones if there are none.
func (s *Sample) level(name string) *Level {
	l := s.Levels[name]
	if l == nil {
		l = &Level{Name: name, Rejected: map[string]float64{}}
		s.Levels[name] = l
	}
	return l
}
