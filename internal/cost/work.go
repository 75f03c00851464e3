package cost

import "math"

// Work is requests that are alike.
type Work struct {
	Requests    float64  // LISTs, or WATCHes; all pages of a LIST are one
	Connections float64  // opened for them
	Quorum      float64  // of the requests, those without resourceVersion
	Looked      float64  // objects that each looks at
	Sent        float64  // bytes, as they are stored, of the objects that each sends
	Encoding    Encoding // empty: Protobuf
	PageCount   float64  // of each LIST; 0: 1
	Events      float64  // sent to WATCHes, of all together
	EventBytes  float64  // of one, as it is stored
}

// Cost is what Work comes to.
type Cost struct {
	Requests   float64 `json:"requests"`
	Bytes      float64 `json:"bytes"` // sent
	CPUSeconds float64 `json:"cpuSeconds"`
}

// Add returns the sum of two costs.
func (c Cost) Add(o Cost) Cost {
	return Cost{c.Requests + o.Requests, c.Bytes + o.Bytes, c.CPUSeconds + o.CPUSeconds}
}

// Of returns what work costs the server that the coefficients are of.
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

// The seats of kube-apiserver's priority and fairness: --max-requests-inflight and
// --max-mutating-requests-inflight as they are by default, and how many a LIST takes
// (flowcontrol/request/list_work_estimator.go of k8s.io/apiserver 0.37).
const (
	allSeats       = 600
	objectsPerSeat = 100
	maxSeats       = 100
)

// Seats returns how many seats a LIST of so many objects takes.
func Seats(objects float64) float64 {
	return min(maxSeats, max(1, math.Ceil(objects/objectsPerSeat)))
}

// LetIn returns which share of requests, which want so many seats together, is let in at once.
func LetIn(seats float64) float64 { return min(1, allSeats/max(1, seats)) }

// Growth returns by how much the memory of a kube-apiserver grows, that has so much resident, while
// answers of so many bytes, as they are stored, are under way at once.
func (m *Memory) Growth(resident, underWay float64) float64 {
	if underWay == 0 {
		return 0
	}
	return resident*m.Headroom + underWay*m.Held
}

// Check is a prediction beside a measurement.
type Check struct {
	Incident string  `json:"incident"` // of weir lab, or what was done
	Way      string  `json:"way"`      // in which its clients ask
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

// Off returns by which factor the prediction is off, at least 1; infinity if one of the two is 0.
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
