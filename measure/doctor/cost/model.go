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

// Load returns the measured model.
func Load() (*Model, error) {
	m := &Model{}
	if err := json.Unmarshal(measured, m); err != nil {
		return nil, fmt.Errorf("cost: model.json: %w", err)
	}
	return m, nil
}
