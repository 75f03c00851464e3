package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weirproject/weir/internal/testing/check"
)

// inText returns JSON text as a quoted JSON string.
func inText(t testing.TB, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	check.NoError(t, err)
	return string(quoted)
}

// indented returns JSON text, indented over many lines.
func indented(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	check.NoError(t, json.Indent(&b, []byte(text), "", "  "))
	return b.String() + "\n"
}

// one returns an event at a second, without a newline.
func one(second int) string { return strings.TrimSpace(at(second)) }

// withObject adds to an event's line the objects that level RequestResponse logs.
func withObject(line, object string) string {
	return strings.Replace(line, `"requestReceivedTimestamp"`, `"requestObject":`+object+`,"responseObject":`+object+`,"requestReceivedTimestamp"`, 1)
}

// object returns a List of size bytes that contains text which looks like events and envelopes.
func object(size int) string {
	item := `{"kind":"Event","items":[{"log":"}]{["}],"log":"{\"kind\":\"Event\",\\","requestObject":null,"data":"` + strings.Repeat("x", 1000) + `"},`
	return `{"kind":"EventList","items":[` + strings.Repeat(item, size/len(item)) + `{}]}`
}

// TestLogOfObjects checks that events of level RequestResponse with objects of any
// size are read, and use no more memory than other events.
func TestLogOfObjects(t *testing.T) {
	for _, size := range []int{100, 100_000, bufferSize, MaxLine, 3 * MaxLine} {
		text := at(1) + withObject(one(2), object(size)) + "\n" + at(3) + withObject(one(4), object(size))
		for _, src := range []io.Reader{strings.NewReader(text), iotest.HalfReader(strings.NewReader(text))} {
			log, err := NewLog("that", src)
			check.NoError(t, err)
			got, err := drain(t, log)
			if n := log.Counts(); err != nil || !slices.Equal(got, []int{1, 2, 3, 4}) || !n.Complete() || n.Lines != 4 {
				t.Errorf("%d bytes: %v, %v, %+v", size, got, err, n)
			}
			if held := cap(log.records.buf); held > 2*bufferSize {
				t.Errorf("%d bytes: it holds %d", size, held)
			}
		}
	}
}

// TestLogBound checks that an event with a field that is too long is counted, and that at most the
// allowed length of the field is stored.
func TestLogBound(t *testing.T) {
	long, longest := strings.Repeat("x", 2*MaxLine), strings.Repeat("x", 2*maxToken)
	for _, line := range []string{
		strings.Replace(one(2), `"verb":"list"`, `"verb":"`+long+`"`, 1),
		strings.Replace(one(2), `"verb":"list"`, `"verb":"list","`+longest+`":1`, 1),
		`{"log":` + inText(t, strings.Replace(one(2), `"verb":"list"`, `"verb":"`+long+`"`, 1)) + `}`,
		`{"log":` + inText(t, withObject(one(2), object(2*maxToken))) + `}`,
	} {
		log, err := NewLog("that", strings.NewReader(at(1)+line+"\n"+at(3)))
		check.NoError(t, err)
		got, err := drain(t, log)
		if n := log.Counts(); err != nil || !slices.Equal(got, []int{1, 3}) || n.TooLong != 1 || n.Malformed > 1 || n.Complete() {
			t.Errorf("%.80s: %v, %v, %+v", line, got, err, n)
		}
		if held := cap(log.records.event.scratch); held > 2*MaxLine {
			t.Errorf("it holds %d", held)
		}
	}
}

// TestEnvelopes checks that events are found in all forms in which logs are commonly delivered.
func TestEnvelopes(t *testing.T) {
	list := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + one(1) + `,` + withObject(one(2), object(5000)) + `]}`
	azure := func(second int) string {
		return `{"time":"2026-11-20T08:00:01Z","category":"kube-audit","operationName":"x","properties":{"log":` + inText(t, at(second)) + `,"stream":"stdout"},"ccpNamespace":"y"}`
	}
	cloudWatch := `{"events":[{"timestamp":1,"message":` + inText(t, one(1)) + `,"ingestionTime":2},{"timestamp":1,"message":` + inText(t, one(2)) + `}],"searchedLogStreams":[]}`
	for name, text := range map[string]string{
		"a list":                           `[` + one(1) + `,` + one(2) + `]`,
		"a list, an event a line":          "[\n" + one(1) + ",\n" + one(2) + "\n]\n",
		"a list on many lines":             indented(t, `[`+one(1)+`,`+one(2)+`]`),
		"an EventList":                     list,
		"an EventList, an event a line":    strings.Replace(strings.Replace(list, "[{", "[\n{", 1), "},{\"kind\"", "},\n{\"kind\"", 1),
		"an EventList of a webhook":        strings.ReplaceAll(list, `"kind":"Event","apiVersion":"audit.k8s.io/v1",`, ""),
		"an EventList on many lines":       indented(t, list),
		"events on many lines":             indented(t, one(1)) + indented(t, one(2)),
		"commas behind":                    one(1) + ",\n" + one(2) + ",\n",
		"two on a line":                    one(1) + one(2) + "\n",
		"EKS, exported":                    "2026-11-20T08:00:01.000Z " + one(1) + "\n2026-11-20T08:00:02.000Z " + one(2) + "\n",
		"EKS, filter-log-events":           indented(t, cloudWatch),
		"EKS, a subscription":              strings.Replace(cloudWatch, `"events"`, `"messageType":"DATA_MESSAGE","logEvents"`, 1),
		"AKS":                              azure(1) + "\n" + azure(2) + "\n",
		"AKS, Event Hubs":                  `{"records":[` + azure(1) + `,` + azure(2) + `]}`,
		"OpenShift, oc adm node-logs":      "master-0 " + one(1) + "\nmaster-1 " + one(2) + "\n",
		"OpenShift, structured":            `{"@timestamp":"x","structured":` + one(1) + "}\n" + `{"structured":` + one(2) + "}\n",
		"OpenShift, with other members":    strings.Replace(at(1), `{"kind"`, `{"message":"text","log":{"a":[]},"@timestamp":"x","kind"`, 1) + at(2),
		"fluentd":                          "2026-11-20T08:00:01+00:00\tkube.audit\t" + one(1) + "\n2026-11-20T08:00:01+00:00\tkube.audit\t" + one(2) + "\n",
		"docker":                           `{"log":` + inText(t, at(1)) + `,"stream":"stdout","time":"x"}` + "\n" + `{"log":` + inText(t, at(2)) + "}\n",
		"CRI":                              "2026-11-20T08:00:01.000Z stdout F " + one(1) + "\n2026-11-20T08:00:01.000Z stdout F " + one(2) + "\n",
		"syslog":                           "Nov 20 08:00:01 host kube[12]: " + one(1) + "\n<13>Nov 20 host {audit} [3]: " + one(2) + "\n",
		"docker, of level RequestResponse": `{"log":` + inText(t, withObject(one(1), object(MaxLine))) + "}\n" + at(2),
		"text with large objects":          "x " + withObject(one(1), object(2*MaxLine)) + "\n" + at(2),
	} {
		sources := []io.Reader{strings.NewReader(text)}
		// Skip long texts: jsontext moves the whole value for each byte, which is slow with the race
		// detector.
		if len(text) < MaxLine {
			sources = append(sources, iotest.OneByteReader(strings.NewReader(text)))
		}
		for _, src := range sources {
			log, err := NewLog("that", src)
			check.NoError(t, err)
			got, err := drain(t, log)
			if n := log.Counts(); err != nil || !slices.Equal(got, []int{1, 2}) || !n.Complete() {
				t.Errorf("%s: %v, %v, %+v", name, got, err, n)
			}
		}
	}
}

// TestEnvelopedFields checks that escapes inside a string in an envelope are decoded twice.
func TestEnvelopedFields(t *testing.T) {
	line := strings.Replace(one(1), "collector/v1.2", `\u00e9\ud83d\ude00\\\"\t/v1`, 1)
	var want Event
	check.NoError(t, want.Parse([]byte(line)))
	for _, text := range []string{inText(t, line), strings.ReplaceAll(inText(t, line), "x", `\u0078`)} {
		log, err := NewLog("that", strings.NewReader(`{"log":`+text+`}`))
		check.NoError(t, err)
		got, err := log.Next()
		check.NoError(t, err)
		if string(got.Agent) != string(want.Agent) || string(got.URI) != string(want.URI) {
			t.Errorf("%q of %q; want %q", got.Agent, got.URI, want.Agent)
		}
	}
}

// TestFaults checks that each kind of fault has its own error, and that the events before and after
// the fault are read.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		text string
		want Fault
		hint string
	}{
		{"I1120 08:00:00 httplog.go:129] HTTP verb=GET", ErrNoJSON, ""},
		{"\x00\x00\x00", ErrNoJSON, ""},
		{one(5)[:300], ErrCutOff, ""},
		{`{"log":` + inText(t, one(5)[:300]) + `}`, ErrCutOff, ""},
		{strings.Replace(one(5), `"code":200`, `"code":"200"`, 1), ErrInvalid, ""},
		{strings.Replace(one(5), `"verb"`, `verb`, 1), ErrInvalid, ""},
		{`{"log":` + inText(t, strings.Replace(one(5), `"verb"`, `verb`, 1)) + `}`, ErrInvalid, ""},
		{one(5)[:300] + one(6), ErrInvalid, ""}, // the string ends at the next quote
		{`{"kind":"Pod","apiVersion":"v1"}`, ErrOtherKind, "fromjson"},
		{`{"log":"text"}`, ErrOtherKind, "fromjson"},
		{strings.Replace(one(5), "audit.k8s.io/v1", "audit.k8s.io/v1beta1", 1), ErrOtherVersion, "v1beta1"},
		{strings.Replace(one(5), `"stage"`, `"step"`, 1), ErrNoStage, ""},
		{strings.Replace(one(5), `"stageTimestamp"`, `"@timestamp"`, 1), ErrNoTime, "keep_time_key"},
		{`{"protoPayload":{"methodName":"io.k8s.core.v1.pods.list"},"timestamp":"x"}`, ErrGoogle, "protoPayload"},
	} {
		for _, with := range []bool{true, false} {
			text := c.text + "\n"
			if with {
				text = at(1) + text + at(2)
			}
			log, err := NewLog("that", strings.NewReader(text))
			check.NoError(t, err)
			got, err := drain(t, log)
			if n := log.Counts(); n.Malformed != 1 || n.Causes[string(c.want)] != 1 || n.Complete() {
				t.Errorf("%.60q: %+v", c.text, n)
			}
			if with && (err != nil || !slices.Equal(got, []int{1, 2})) {
				t.Errorf("%.60q: %v, %v", c.text, got, err)
			}
			if !with && (!errors.Is(err, ErrNotALog) || !errors.Is(err, c.want) || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.hint)) {
				t.Errorf("%.60q: %v", c.text, err)
			}
		}
	}
}

// TestFaultInList checks that a list with an invalid item, or without an end, returns the events
// that can be read, and that the fault is counted once.
func TestFaultInList(t *testing.T) {
	for name, text := range map[string]string{
		"cut off":                `{"items":[` + one(1) + `,` + one(2) + `,`,
		"cut off in an event":    `{"items":[` + one(1) + `,` + one(2) + `,` + one(3)[:200],
		"malformed":              `[` + one(1) + `,` + one(2) + `,{"kind":nothing}]`,
		"an event without stage": `[` + one(1) + `,` + strings.Replace(one(5), `"stage"`, `"step"`, 1) + `,` + one(2) + `]`,
	} {
		log, err := NewLog("that", strings.NewReader(text))
		check.NoError(t, err)
		got, err := drain(t, log)
		if n := log.Counts(); err != nil || !slices.Equal(got, []int{1, 2}) || n.Malformed != 1 {
			t.Errorf("%s: %v, %v, %+v", name, got, err, n)
		}
	}
}

// TestFormats checks that the error for a log with an unsupported compression or encoding names the
// format and the command that decodes it.
func TestFormats(t *testing.T) {
	for _, f := range formats {
		text := strings.Repeat("\x00", f.at) + f.magic + strings.Repeat("\x00", 100)
		for _, text := range []string{text, zipped(t, text)} {
			log, err := NewLog("that", strings.NewReader(text))
			check.NoError(t, err)
			if f.magic == "\x1f\x8b" && text[:2] == "\x1f\x8b" && text[2] == 0 {
				continue // gzip, which is read
			}
			want := fmt.Sprintf("that is %s, which is not read by doctor: %s that | weir doctor -", f.what, f.commands)
			if _, err = drain(t, log); !errors.Is(err, ErrFormat) || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}

// FuzzLog checks that a log is read to its end within its memory limit, and that the result does
// not depend on the size of reads.
func FuzzLog(f *testing.F) {
	f.Add([]byte(at(1) + `{"log":"` + "\n" + at(2)))
	f.Add([]byte(`{"records":[{"properties":{"log":` + inText(f, at(1)) + `}}]}`))
	f.Add([]byte("[\n" + indented(f, one(1)) + "]"))
	f.Add([]byte("x {y} [z] " + at(1)))
	f.Add([]byte(`{"items":[{"log":"\ud83d\ude00\x"},[[[[[[[[["\u12`))
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func(src io.Reader) (string, Counts) {
			log, err := NewLog("that", src)
			check.NoError(t, err)
			got, err := drain(t, log)
			if held := cap(log.records.event.scratch); held > 2*MaxLine {
				t.Errorf("it holds %d", held)
			}
			counts := log.Counts()
			counts.Bytes = 0 // of an unsupported format, only the start is read
			return fmt.Sprint(got, err), counts
		}
		whole, counts := read(bytes.NewReader(text))
		bytewise, same := read(iotest.OneByteReader(bytes.NewReader(text)))
		if whole != bytewise || fmt.Sprint(counts) != fmt.Sprint(same) {
			t.Errorf("%q: %s, %+v; by bytes: %s, %+v", text, whole, counts, bytewise, same)
		}
	})
}

// BenchmarkLogOfObjects reads events of level RequestResponse, each 1 MB large.
func BenchmarkLogOfObjects(b *testing.B) {
	text := []byte(strings.Repeat(withObject(one(1), object(500_000))+"\n", 8))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		log, err := NewLog("bench", bytes.NewReader(text))
		check.NoError(b, err)
		for err == nil {
			_, err = log.Next()
		}
	}
}
