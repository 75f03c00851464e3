package cost

import "math"

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
