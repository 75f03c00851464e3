// Package cost predicts what requests cost a kube-apiserver or a weir-proxy: CPU time, sent bytes
// and memory. Its coefficients were measured. model.json contains them, with the date, the machine
// and the command of the measurement.
//
// The model of CPU time is a sum of:
//   - a fixed cost of each request, and of each page of a LIST
//   - a fixed cost of each connection that is opened
//   - a query to etcd, for each LIST that must be current
//   - a cost of each object that the server compares with a selector
//   - a cost of each stored byte of the sent objects, which depends on the encoding
//   - a cost of each event that the server sends to a WATCH
package cost

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"
)

// Encoding is how an answer is encoded.
type Encoding string

// The encodings that answers have.
const (
	Protobuf     Encoding = "protobuf"
	ProtobufGzip Encoding = "protobufGzip"
	JSON         Encoding = "json"
	JSONGzip     Encoding = "jsonGzip"
	// Initial is protobuf, in the events that a WATCH sends at its start if it starts with all
	// objects.
	Initial Encoding = "initial"
)

// Encodings returns all encodings.
func Encodings() []Encoding { return []Encoding{Protobuf, ProtobufGzip, JSON, JSONGzip, Initial} }

// LeastCPU is the CPU time, in seconds, from which predictions are precise. Below it, the
// prediction may be only half of the time that a server needs, because of the server's background
// work.
const LeastCPU = 2.0

// Model contains the measured coefficients, and checks of its predictions. The JSON names are
// stable.
type Model struct {
	Measured Measured     `json:"measured"`
	Server   Coefficients `json:"apiserver"`
	Proxy    Coefficients `json:"proxy"`
	Memory   Memory       `json:"memory"`
	Checks   []Check      `json:"checks"` // predictions and measurements of the same run
}

// Measured describes the run in which a model was measured.
type Measured struct {
	At          time.Time `json:"at"`
	Command     string    `json:"command"`
	Server      string    `json:"server"` // the server's name and version
	CPU         string    `json:"cpu"`
	CPUs        int       `json:"cpus"`
	Go          string    `json:"go"`
	Objects     int64     `json:"objects"`     // the number of pods
	ObjectBytes float64   `json:"objectBytes"` // the size of one pod, in protobuf
}

// Coefficients are the CPU times that a server needs for the parts of a request, in seconds.
type Coefficients struct {
	Idle       float64 `json:"idle"`       // cores that are used without requests
	Connection float64 `json:"connection"` // to open a connection, with TLS
	Request    float64 `json:"request"`    // for a LIST that finds no object
	Quorum     float64 `json:"quorum"`     // additional, for a LIST without resourceVersion
	Looked     float64 `json:"looked"`     // for each object that the server compares with a selector
	Event      float64 `json:"event"`      // for each event that the server sends to a WATCH

	Encodings map[Encoding]Sent `json:"forms"`
}

// Sent is the cost of sending an object, per stored byte of the object.
type Sent struct {
	Seconds float64 `json:"seconds"` // of CPU time
	Bytes   float64 `json:"bytes"`   // on the wire
}

// Memory describes how much a kube-apiserver's memory grows while LISTs run.
type Memory struct {
	// Headroom is how much the first large LISTs increase the resident memory, as a share of that
	// memory. The increase is garbage that is not collected yet.
	Headroom float64 `json:"headroom"`
	// Held is the memory that a running LIST or WATCH uses for each stored byte of the objects that it
	// sends.
	Held float64 `json:"held"`
}

//go:embed model.json
var measured []byte

// Load returns the measured model. Callers must not modify it.
var Load = sync.OnceValue(func() *Model {
	m := &Model{}
	if err := json.Unmarshal(measured, m); err != nil {
		panic(fmt.Sprintf("cost: model.json, which is embedded: %v", err))
	}
	return m
})

// Work is a number of equal requests, and a number of events that WATCHes receive.
type Work struct {
	Requests    float64  // LISTs or WATCHes; a LIST in pages counts once
	Connections float64  // how many are opened for the requests
	Quorum      float64  // the number of Requests without resourceVersion
	Looked      float64  // objects per request that the server compares with a selector
	Sent        float64  // stored bytes per request of the objects that the server sends
	Encoding    Encoding // empty means Protobuf
	PageCount   float64  // of each LIST; 0 means 1
	Events      float64  // events that all WATCHes together receive
	EventBytes  float64  // stored bytes of the object of an event
}

// Cost is what a Work costs.
type Cost struct {
	Requests   float64 `json:"requests"`
	Bytes      float64 `json:"bytes"` // sent
	CPUSeconds float64 `json:"cpuSeconds"`
}

// Add returns the sum of two costs.
func (c Cost) Add(o Cost) Cost {
	return Cost{c.Requests + o.Requests, c.Bytes + o.Bytes, c.CPUSeconds + o.CPUSeconds}
}

// Of returns the cost of w for a server with these coefficients.
func (k *Coefficients) Of(w Work) Cost {
	w.Encoding = cmp.Or(w.Encoding, Protobuf)
	sent, pages := k.Encodings[w.Encoding], max(1, w.PageCount)
	each := pages*k.Request + w.Looked*k.Looked + w.Sent*sent.Seconds
	return Cost{
		Requests:   w.Requests * pages,
		Bytes:      w.Requests*w.Sent*sent.Bytes + w.Events*w.EventBytes*k.Encodings[Initial].Bytes,
		CPUSeconds: w.Requests*each + w.Quorum*k.Quorum + w.Connections*k.Connection + w.Events*k.Event,
	}
}

// kube-apiserver's priority and fairness limits how many requests run at the same time: each needs
// one or more seats. allSeats, the number of all seats, is the sum of the defaults of
// --max-requests-inflight and --max-mutating-requests-inflight. objectsPerSeat and maxSeats
// determine the seats of a LIST (flowcontrol/request/list_work_estimator.go of k8s.io/apiserver
// 0.37).
const (
	allSeats       = 600
	objectsPerSeat = 100
	maxSeats       = 100
)

// Seats returns the number of seats that a LIST of objects needs.
func Seats(objects float64) float64 {
	return min(maxSeats, max(1, math.Ceil(objects/objectsPerSeat)))
}

// LetIn returns the share of requests that may run at the same time. seats is the number of seats
// that all requests together need.
func LetIn(seats float64) float64 { return min(1, allSeats/max(1, seats)) }

// Growth returns how much a kube-apiserver's memory grows, in bytes. resident is its resident
// memory, and underWay is the number of stored bytes in the answers that it sends at the same time.
func (m *Memory) Growth(resident, underWay float64) float64 {
	if underWay == 0 {
		return 0
	}
	return resident*m.Headroom + underWay*m.Held
}

// Check compares a prediction (Got) with a measurement (Want).
type Check struct {
	Incident string  `json:"incident"` // of weir lab, or a description of another test
	Way      string  `json:"way"`      // how the incident's clients send requests
	Figure   string  `json:"figure"`
	Want     float64 `json:"measured"`
	Got      float64 `json:"predicted"`
}

// The values of Check.Figure.
const (
	CPUFigure      = "cpuSeconds"
	ProxyCPUFigure = "proxyCPUSeconds"
	BytesFigure    = "bytes"
	PeakFigure     = "peakRSSBytes"
)

// Off returns the factor between the prediction and the measurement, at least 1. It returns
// infinity if only one of them is 0.
func (c Check) Off() float64 {
	if c.Want == c.Got {
		return 1
	}
	off := c.Got / c.Want
	if math.IsNaN(off) || off <= 0 {
		return math.Inf(1)
	}
	return max(off, 1/off)
}
