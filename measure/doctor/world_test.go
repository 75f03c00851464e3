package doctor

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// world writes the audit log of a cluster with harmless clients and culprits. A seed determines all
// random values.
type world struct {
	rnd   *rand.Rand
	start time.Time
	lines []stamped
	ids   int
	buf   []byte // the buffer of line
}

type stamped struct {
	at   time.Duration
	text string
}

const days = 72 * time.Hour // how long the log is

func newWorld(seed uint64) *world {
	return &world{rnd: rand.New(rand.NewPCG(seed, 1)), start: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
}

// request describes a request. at is the time since the start of the log.
type request struct {
	at, took, queued            time.Duration
	verb, query                 string
	user, agent, ip, pod, via   string // via impersonates user
	group, resource, ns, object string
	sub, reason                 string // reason: in the Status of the answer
	code                        int
	open                        bool // a WATCH that never ends
}

// line returns the line of a request at a stage, with the fields in kube-apiserver's order. It does
// not use fmt, which would take longer than doctor: tests create hundreds of thousands of lines.
func (w *world) line(r request, stage string, staged time.Duration) string {
	version, path := "v1", "/api/v1"
	if r.group != "" {
		path = "/apis/" + r.group + "/v1"
	}
	b := append(w.buf[:0], `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"`...)
	b = fmt.Appendf(b, "%08d-aaaa-4bbb-8ccc-%012x", w.ids, w.ids)
	b = append(append(b, `","stage":"`...), stage...)
	b = append(append(b, `","requestURI":"`...), path...)
	if r.ns != "" {
		b = append(append(b, "/namespaces/"...), r.ns...)
	}
	b = append(append(b, '/'), r.resource...)
	if r.object != "" {
		b = append(append(b, '/'), r.object...)
	}
	if r.sub != "" {
		b = append(append(b, '/'), r.sub...)
	}
	if r.query != "" {
		b = append(append(b, '?'), strings.ReplaceAll(r.query, "&", `\u0026`)...)
	}
	b = append(append(b, `","verb":"`...), r.verb...)
	b = append(append(b, `","user":{"username":"`...), cmp.Or(r.via, r.user)...)
	b = append(b, `","groups":["system:authenticated"],"extra":{"authentication.kubernetes.io/pod-name":["`...)
	b = append(append(b, r.pod...), `"]}},`...)
	if r.via != "" {
		b = append(append(append(b, `"impersonatedUser":{"username":"`...), r.user...), `"},`...)
	}
	b = append(b, `"sourceIPs":["`...)
	b = append(append(b, r.ip...), `"],"userAgent":"`...)
	b = append(append(b, r.agent...), `","objectRef":{"resource":"`...)
	b = append(b, r.resource...)
	for _, f := range [...][2]string{{"namespace", r.ns}, {"name", r.object}, {"apiGroup", r.group}, {"apiVersion", version}, {"subresource", r.sub}} {
		if f[1] != "" {
			b = append(append(append(append(b, `","`...), f[0]...), `":"`...), f[1]...)
		}
	}
	const micro = "2006-01-02T15:04:05.000000Z"
	b = append(b, `"},"responseStatus":{"metadata":{},`...)
	if r.reason != "" {
		b = append(append(append(b, `"reason":"`...), r.reason...), `",`...)
	}
	b = strconv.AppendInt(append(b, `"code":`...), int64(r.code), 10)
	b = w.start.Add(r.at).AppendFormat(append(b, `},"requestReceivedTimestamp":"`...), micro)
	b = w.start.Add(staged).AppendFormat(append(b, `","stageTimestamp":"`...), micro)
	b = append(append(b, `","annotations":{"apiserver.latency.k8s.io/apf-queue-wait":"`...), r.queued.String()...)
	b = append(b, `","authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}`...)
	w.buf = b
	return string(b)
}

// do adds the lines of a request. A WATCH also has a line when it starts.
func (w *world) do(r request) {
	w.ids++
	r.code = cmp.Or(r.code, 200)
	r.took = cmp.Or(r.took, time.Duration(w.rnd.IntN(20)+1)*time.Millisecond)
	if r.verb == "watch" {
		w.lines = append(w.lines, stamped{r.at, w.line(r, "ResponseStarted", r.at)})
	}
	if !r.open {
		w.lines = append(w.lines, stamped{r.at + r.took, w.line(r, "ResponseComplete", r.at+r.took)})
	}
}

// between returns a random duration in the given range.
func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rnd.Int64N(int64(to-from)))
}

// log returns all lines in the order of time.
func (w *world) log() []byte {
	slices.SortStableFunc(w.lines, func(a, b stamped) int { return cmp.Compare(a.at, b.at) })
	size := 0
	for _, l := range w.lines {
		size += len(l.text) + 1
	}
	all := make([]byte, 0, size)
	for _, l := range w.lines {
		all = append(append(all, l.text...), '\n')
	}
	return all
}

// program returns a user agent in the form that client-go uses.
func program(name string) string { return name + "/v1.2.3 (linux/amd64) kubernetes/0f1e2d3" }

func account(name string) string { return "system:serviceaccount:apps:" + name }

// examine returns a doctor's report on a log.
func examine(t testing.TB, o Options, log []byte) *Report {
	t.Helper()
	d := New(o)
	l, err := evidence.NewLog("log", bytes.NewReader(log))
	check.NoError(t, err)
	for {
		e, err := l.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check.NoError(t, err)
		d.Add(e)
	}
	if n := l.Counts(); n.Malformed > 0 {
		t.Fatalf("%+v", n)
	}
	return d.Report()
}

var madeLog = flag.String("doctor.write", "", "where TestMadeLog writes its log, such as a pipe")

// TestMadeLog checks that newMadeLog returns the same log for the same seed, and different logs for
// different seeds. With -doctor.write PATH it instead writes the log of TestManyEvents to a file
// for weir doctor.
func TestMadeLog(t *testing.T) {
	if *madeLog == "" {
		if !bytes.Equal(made(t, 1), made(t, 1)) || bytes.Equal(made(t, 1), made(t, 2)) {
			t.Error("a seed does not tell which log it is")
		}
		return
	}
	f, err := os.OpenFile(*madeLog, os.O_WRONLY|os.O_CREATE, 0o600)
	check.NoError(t, err)
	if _, err := io.Copy(f, newMadeLog(*manySeed, *manyEvents)); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, f.Close())
}

// made returns a small log for a seed.
func made(t *testing.T, seed uint64) []byte {
	t.Helper()
	text, err := io.ReadAll(newMadeLog(seed, 100))
	check.NoError(t, err)
	return text
}

// newMadeLog returns the log for a seed: culprits, innocents, and n events of a crowd.
func newMadeLog(seed uint64, n int) io.Reader {
	w := newWorld(seed)
	w.innocents()
	w.culprits()
	return newCrowd(w, n)
}
