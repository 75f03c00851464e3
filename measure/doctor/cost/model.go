// Package cost predicts the cost of requests for a kube-apiserver or a weir-proxy: CPU, sent bytes
// and memory. Its coefficients are measured. model.json has them with the date, the machine and the
// command.
//
// The model is a sum of:
//   - the fixed cost of a request
//   - the query to etcd, for a LIST that must be current
//   - each object that a selector is compared with
//   - each byte sent, by its stored size and the encoding
package cost

import (
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
	// Initial are the events at the start of a WATCH that starts with the state, in protobuf.
	Initial Encoding = "initial"
)

// Encodings returns all of them.
func Encodings() []Encoding { return []Encoding{Protobuf, ProtobufGzip, JSON, JSONGzip, Initial} }

// LeastCPU is the CPU time, in seconds, from which on tests compare predictions with measurements.
// Below it a server may need twice as much, because its own work is not small in comparison.
const LeastCPU = 2.0

// Model has the measured coefficients, and compares predictions with measurements. The JSON names
// are stable.
type Model struct {
	Measured Measured     `json:"measured"`
	Server   Coefficients `json:"apiserver"`
	Proxy    Coefficients `json:"proxy"`
	Memory   Memory       `json:"memory"`
	Checks   []Check      `json:"checks"` // predictions next to measurements, of the same run
}

// Measured describes the measurement.
type Measured struct {
	At          time.Time `json:"at"`
	Command     string    `json:"command"`
	Server      string    `json:"server"` // and its version
	CPU         string    `json:"cpu"`
	CPUs        int       `json:"cpus"`
	Go          string    `json:"go"`
	Objects     int64     `json:"objects"`     // pods
	ObjectBytes float64   `json:"objectBytes"` // of one, in protobuf
}

// Coefficients are the CPU time that a server needs for each part of a request, in seconds.
type Coefficients struct {
	Idle       float64 `json:"idle"`       // cores, without requests
	Connection float64 `json:"connection"` // to open one, with TLS
	Request    float64 `json:"request"`    // of a LIST that finds nothing
	Quorum     float64 `json:"quorum"`     // more, without resourceVersion
	Looked     float64 `json:"looked"`     // for each object that is compared with a selector
	Event      float64 `json:"event"`      // for each event that is sent to a WATCH

	Encodings map[Encoding]Sent `json:"forms"`
}

// Sent is the cost of sending a byte of an object, by its stored size.
type Sent struct {
	Seconds float64 `json:"seconds"` // of CPU
	Bytes   float64 `json:"bytes"`   // on the wire
}

// Memory is the growth of a kube-apiserver while LISTs run.
type Memory struct {
	// Headroom is the growth by the first large LISTs, as a share of the resident memory: garbage that
	// is not yet collected.
	Headroom float64 `json:"headroom"`
	// Held is the memory of a LIST or WATCH that runs, for each stored byte of the objects that it
	// sends.
	Held float64 `json:"held"`
}

//go:embed model.json
var measured []byte

// Load returns the measured model, which callers must not modify.
var Load = sync.OnceValue(func() *Model {
	m := &Model{}
	if err := json.Unmarshal(measured, m); err != nil {
		panic(fmt.Sprintf("cost: model.json, which is embedded: %v", err))
	}
	return m
})

// Work is a number of equal requests.
type Work struct {
	Requests    float64  // LISTs, or WATCHes; all pages of a LIST are one
	Connections float64  // opened for them
	Quorum      float64  // of the requests, those without resourceVersion
	Looked      float64  // objects that the server looks at for each
	Sent        float64  // stored bytes of the objects that each sends
	Encoding    Encoding // empty: Protobuf
	PageCount   float64  // of each LIST; 0: 1
	Events      float64  // sent to WATCHes, of all together
	EventBytes  float64  // stored bytes of one
}

// Cost is the cost of Work.
type Cost struct {
	Requests   float64 `json:"requests"`
	Bytes      float64 `json:"bytes"` // sent
	CPUSeconds float64 `json:"cpuSeconds"`
}

// Add returns the sum of two costs.
func (c Cost) Add(o Cost) Cost {
	return Cost{c.Requests + o.Requests, c.Bytes + o.Bytes, c.CPUSeconds + o.CPUSeconds}
}

// Of returns the cost of work for the server with these coefficients.
func (k *Coefficients) Of(w Work) Cost {
	if w.Encoding == "" {
		w.Encoding = Protobuf
	}
	sent, pages := k.Encodings[w.Encoding], max(1, w.PageCount)
	each := pages*k.Request + w.Looked*k.Looked + w.Sent*sent.Seconds
	return Cost{
		Requests:   w.Requests * pages,
		Bytes:      w.Requests*w.Sent*sent.Bytes + w.Events*w.EventBytes*k.Encodings[Initial].Bytes,
		CPUSeconds: w.Requests*each + w.Quorum*k.Quorum + w.Connections*k.Connection + w.Events*k.Event,
	}
}

// The seats of kube-apiserver's priority and fairness: the sum of the defaults of
// --max-requests-inflight and --max-mutating-requests-inflight, and the seats of a LIST
// (flowcontrol/request/list_work_estimator.go of k8s.io/apiserver 0.37).
const (
	allSeats       = 600
	objectsPerSeat = 100
	maxSeats       = 100
)

// Seats returns the number of seats that a LIST of some objects needs.
func Seats(objects float64) float64 {
	return min(maxSeats, max(1, math.Ceil(objects/objectsPerSeat)))
}

// LetIn returns the share of requests that run at the same time, if all together need some seats.
func LetIn(seats float64) float64 { return min(1, allSeats/max(1, seats)) }

// Growth returns the growth of a kube-apiserver's memory, given its resident memory and the stored
// bytes of the answers that run at the same time.
func (m *Memory) Growth(resident, underWay float64) float64 {
	if underWay == 0 {
		return 0
	}
	return resident*m.Headroom + underWay*m.Held
}

// Check compares a prediction with a measurement.
type Check struct {
	Incident string  `json:"incident"` // of weir lab, or a description
	Way      string  `json:"way"`      // in which its clients send requests
	Figure   string  `json:"figure"`
	Want     float64 `json:"measured"`
	Got      float64 `json:"predicted"`
}

// The figures of checks.
const (
	CPUFigure      = "cpuSeconds"
	ProxyCPUFigure = "proxyCPUSeconds"
	BytesFigure    = "bytes"
	PeakFigure     = "peakRSSBytes"
)

// Off returns the factor between prediction and measurement, at least 1; infinity if one of them is
// 0.
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
