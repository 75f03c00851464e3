package servers

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/doctor/cost"
)

// TestMeasureCosts measures an embedded server and a proxy. It checks that the coefficients exist
// and are possible. It checks the predictions of sent bytes, but not the predictions of CPU time.
func TestMeasureCosts(t *testing.T) {
	const pods = 200
	o := tiny(buildProxy(t), pods)
	o.Resync = 500 * time.Millisecond
	m, err := MeasureCosts(t.Context(), o)
	check.NoError(t, err)
	if m.Measured.Objects != pods || m.Measured.ObjectBytes < 1000 || m.Measured.At.After(time.Now()) || m.Measured.Server == "" {
		t.Errorf("%+v", m.Measured)
	}
	for name, k := range map[string]cost.Coefficients{"server": m.Server, "proxy": m.Proxy} {
		for _, encoding := range cost.Encodings() {
			if k.Encodings[encoding].Bytes <= 0 {
				t.Errorf("%s: %s: %+v", name, encoding, k.Encodings[encoding])
			}
		}
		if json, gzip := k.Encodings[cost.JSON].Bytes, k.Encodings[cost.ProtobufGzip].Bytes; json <= 1 || gzip >= 1 {
			t.Errorf("%s: JSON is %v of protobuf, gzip %v", name, json, gzip)
		}
	}
	for _, incident := range []string{"node-agents", "thundering-restart", "resync-storm", "a LIST"} {
		if !slices.ContainsFunc(m.Checks, func(c cost.Check) bool { return c.Incident == incident }) {
			t.Errorf("nothing is compared with %s: %+v", incident, m.Checks)
		}
	}
	for _, c := range m.Checks {
		if c.Figure == cost.BytesFigure && c.Off() > 1.1 {
			t.Errorf("%s, %s: %s was %v, predicted %v", c.Incident, c.Way, c.Figure, c.Want, c.Got)
		}
	}
	if _, err := json.Marshal(m); err != nil { // fails if a number is infinite
		t.Error(err)
	}
}

// TestCheckedIncidents checks that each way of each incident has a Work.
func TestCheckedIncidents(t *testing.T) {
	for _, i := range checkedIncidents(&cost.Model{}, &serverPods{keys: []string{"a/b"}}) {
		if len(i.works) != len(i.replay.Ways) {
			t.Errorf("%s: %d works of %d ways", i.name, len(i.works), len(i.replay.Ways))
		}
	}
}

// TestCutOff checks that figures of clients that gave up are not compared with predictions.
func TestCutOff(t *testing.T) {
	i := checkedIncident{name: "x"}
	each := cost.Work{Requests: 1, Sent: 10}
	if c := i.compare(&cost.Model{}, Way{}, each, Figures{"up": 1, "clients": 2, "requests": 5}); c != nil {
		t.Errorf("%+v", c)
	}
	if c := i.compare(&cost.Model{}, Way{}, each, Figures{"up": 2, "clients": 2, "requests": 5}); len(c) != 2 {
		t.Errorf("%+v", c)
	}
}
