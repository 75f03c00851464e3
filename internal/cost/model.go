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
	// Initial are the events at the start of a WATCH that begins with the state, in protobuf.
	Initial Encoding = "initial"
)

// Encodings returns all of them.
func Encodings() []Encoding { return []Encoding{Protobuf, ProtobufGzip, JSON, JSONGzip, Initial} }

// LeastCPU is how much CPU time a prediction has to be of to be held to a factor, in seconds. Below
// it a server takes up to twice as much: what it does by itself is not little beside that.
const LeastCPU = 2.0

// Model is what was measured, and how well it predicts. The JSON names are a promise.
type Model struct {
	Measured Measured     `json:"measured"`
	Server   Coefficients `json:"apiserver"`
	Proxy    Coefficients `json:"proxy"`
	Memory   Memory       `json:"memory"`
	Checks   []Check      `json:"checks"` // predictions beside measurements, of the same run
}

// Measured says where the coefficients come from.
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

// Coefficients are the CPU time that a server takes for each part of a request, in seconds.
type Coefficients struct {
	Idle       float64 `json:"idle"`       // cores, while nobody asks
	Connection float64 `json:"connection"` // to open one, with TLS
	Request    float64 `json:"request"`    // of a LIST that finds nothing
	Quorum     float64 `json:"quorum"`     // more, without resourceVersion
	Looked     float64 `json:"looked"`     // for each object that a selector is held against
	Event      float64 `json:"event"`      // for each event that is sent to a WATCH

	Encodings map[Encoding]Sent `json:"forms"`
}

// Sent is what a byte of an object, as it is stored, costs to send.
type Sent struct {
	Seconds float64 `json:"seconds"` // of CPU
	Bytes   float64 `json:"bytes"`   // on the wire
}

// Memory is by how much a kube-apiserver grows with LISTs under way.
type Memory struct {
	// Headroom is what the first large LISTs add, as a share of what is resident: garbage, until it
	// is collected.
	Headroom float64 `json:"headroom"`
	// Held is what each LIST or WATCH under way holds, for each byte, as it is stored, of the
	// objects that it sends.
	Held float64 `json:"held"`
}

//go:embed model.json
var measured []byte

// Load returns the model that was measured.
func Load() (*Model, error) {
	m := &Model{}
	if err := json.Unmarshal(measured, m); err != nil {
		return nil, fmt.Errorf("cost: model.json: %w", err)
	}
	return m, nil
}
