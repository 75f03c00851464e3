package evidence

import (
	"errors"
	"strings"
	"testing"
	"time"

	json "github.com/go-json-experiment/json"

	"github.com/weirproject/weir/internal/testing/check"
)

// listLine is the line of a LIST as kube-apiserver v1.37 logs it at level Metadata.
const listLine = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata",` +
	`"auditID":"5a5cb1cc-2f9a-4a1f-8d2f-0a7e5f0f6a51","stage":"ResponseComplete",` +
	`"requestURI":"/apis/apps/v1/deployments?labelSelector=app%3Dweb\u0026limit=500\u0026resourceVersion=0","verb":"list",` +
	`"user":{"username":"system:serviceaccount:shop:collector","uid":"1","groups":["system:serviceaccounts","system:authenticated"],` +
	`"extra":{"authentication.kubernetes.io/pod-name":["collector-0"]}},"sourceIPs":["10.0.0.7","10.0.0.1"],` +
	`"userAgent":"collector/v1.2 (linux/amd64) kubernetes/\"abc\"","objectRef":{"resource":"deployments","namespace":"shop",` +
	`"apiGroup":"apps","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},` +
	`"requestReceivedTimestamp":"2026-11-20T08:00:00.000000Z","stageTimestamp":"2026-11-20T08:00:01.250000Z",` +
	`"annotations":{"apiserver.latency.k8s.io/apf-queue-wait":"250ms","apiserver.latency.k8s.io/etcd":"1.5ms",` +
	`"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by {\"role\"}"}}`

func TestParse(t *testing.T) {
	var e Event
	check.NoError(t, e.Parse([]byte(listLine)))
	for _, c := range []struct {
		what string
		got  []byte
		want string
	}{
		{"auditID", e.AuditID, "5a5cb1cc-2f9a-4a1f-8d2f-0a7e5f0f6a51"},
		{"stage", e.Stage, StageResponseComplete},
		{"URI", e.URI, "/apis/apps/v1/deployments?labelSelector=app%3Dweb&limit=500&resourceVersion=0"},
		{"verb", e.Verb, "list"},
		{"user", e.User, "system:serviceaccount:shop:collector"},
		{"agent", e.Agent, `collector/v1.2 (linux/amd64) kubernetes/"abc"`},
		{"IP", e.IP, "10.0.0.7"},
		{"pod", e.Pod, "collector-0"},
		{"place", e.Place(), "collector-0"},
		{"group", e.Object.Group, "apps"},
		{"version", e.Object.Version, "v1"},
		{"resource", e.Object.Resource, "deployments"},
		{"subresource", e.Object.Subresource, ""},
		{"namespace", e.Object.Namespace, "shop"},
		{"name", e.Object.Name, ""},
	} {
		check.Equal(t, string(c.got), c.want, "%s", c.what)
	}
	if e.Code != 200 || e.Latency() != 1250*time.Millisecond || e.QueueWait != 250*time.Millisecond || e.Storage != 1500*time.Microsecond {
		t.Errorf("code %d, latency %v, queue %v, storage %v", e.Code, e.Latency(), e.QueueWait, e.Storage)
	}
	check.Equal(t, e.Received, time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).UnixMicro(), "received")
}

// TestParseImpersonated checks that the event of an impersonated request has the impersonated user,
// that user's place, and the user that authenticated.
func TestParseImpersonated(t *testing.T) {
	for _, c := range []struct{ member, user, via, place string }{
		{`"impersonatedUser":{"username":"jane","groups":["dev"]}`, "jane", "system:serviceaccount:shop:collector", "10.0.0.7"},
		{`"impersonatedUser":{"username":"system:serviceaccount:a:b","extra":{"authentication.kubernetes.io/pod-name":["b-0"]}}`,
			"system:serviceaccount:a:b", "system:serviceaccount:shop:collector", "b-0"},
		{`"impersonatedUser":{"username":"system:node:n","extra":null}`, "system:node:n", "system:serviceaccount:shop:collector", "system:node:n"},
		{`"impersonatedUser":{"username":"system:serviceaccount:shop:collector"}`, "system:serviceaccount:shop:collector", "", "collector-0"},
		{`"impersonatedUser":null`, "system:serviceaccount:shop:collector", "", "collector-0"},
		{`"impersonatedUser":{"uid":"7"}`, "system:serviceaccount:shop:collector", "", "collector-0"},
	} {
		for _, line := range []string{
			strings.Replace(listLine, `"sourceIPs"`, c.member+`,"sourceIPs"`, 1), strings.Replace(listLine, `"user":`, c.member+`,"user":`, 1),
		} {
			var e Event
			if err := e.Parse([]byte(line)); err != nil || string(e.User) != c.user || string(e.Via) != c.via || string(e.Place()) != c.place {
				t.Errorf("%s: %q via %q on %q, %v", c.member, e.User, e.Via, e.Place(), err)
			}
			if e := e.clone(); string(e.Via) != c.via {
				t.Errorf("%s: a copy has %q", c.member, e.Via)
			}
		}
	}
}

// TestRefused checks that a 429 without a Status counts as a refusal by an overloaded server.
func TestRefused(t *testing.T) {
	for status, want := range map[string]bool{
		`"metadata":{},"code":429`: true,
		`"metadata":{},"code":200`: false,
		`"metadata":{},"code":503`: false,
		`"metadata":{},"status":"Failure","reason":"TooManyRequests","code":429`: false,
		`"metadata":{},"reason":null,"code":429`:                                 true,
	} {
		for subresource, evicts := range map[string]bool{"eviction": true, "binding": false} {
			line := strings.NewReplacer(`"metadata":{},"code":200`, status,
				`"namespace":"shop"`, `"namespace":"shop","subresource":"`+subresource+`"`).Replace(listLine)
			var e Event
			if err := e.Parse([]byte(line)); err != nil || e.Refused() != (want && !evicts) {
				t.Errorf("%s of %s: %v, %v", status, subresource, e.Refused(), err)
			}
		}
	}
}

// TestLatency checks that times that cannot be right are ignored and do not overflow.
func TestLatency(t *testing.T) {
	for _, c := range []struct {
		received, wait  string
		latency, queued time.Duration
	}{
		{"2026-11-20T08:00:00.000000Z", "250ms", 1250 * time.Millisecond, 250 * time.Millisecond},
		{"2026-11-20T08:00:00.000000Z", "-5h", 1250 * time.Millisecond, 0},
		{"2026-11-20T08:00:00.000000Z", "5h", 1250 * time.Millisecond, 1250 * time.Millisecond},
		{"2026-11-20T08:00:02.000000Z", "1s", 0, 0},
		{"1970-01-01T00:00:01.000000Z", "1s", 0, 0},
		{"0001-01-01T00:00:00.000000Z", "1s", 0, 0},
	} {
		var e Event
		line := strings.NewReplacer("2026-11-20T08:00:00.000000Z", c.received, "250ms", c.wait).Replace(listLine)
		if err := e.Parse([]byte(line)); err != nil || e.Latency() != c.latency || e.QueueWait != c.queued {
			t.Errorf("%s, %s: %v, %v, %v", c.received, c.wait, err, e.Latency(), e.QueueWait)
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	var e Event
	plain := []byte(strings.NewReplacer(`"apiserver.latency.k8s.io/apf-queue-wait":"250ms",`, "",
		`"apiserver.latency.k8s.io/etcd":"1.5ms",`, "").Replace(listLine))
	if n := testing.AllocsPerRun(100, func() {
		check.NoError(t, e.Parse(plain))
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"nothing":      "",
		"text":         "I1120 08:00:00 httplog.go:129] HTTP verb=GET",
		"a list":       "[" + listLine + "]",
		"cut off":      listLine[:len(listLine)-1],
		"cut in text":  listLine[:200],
		"more behind":  listLine + "x",
		"two":          listLine + listLine,
		"another kind": strings.Replace(listLine, `"Event"`, `"EventList"`, 1),
		"old version":  strings.Replace(listLine, "audit.k8s.io/v1", "audit.k8s.io/v1beta1", 1),
		"no time":      strings.Replace(listLine, `"stageTimestamp"`, `"otherTimestamp"`, 1),
		"a bad time":   strings.Replace(listLine, `08:00:01.250000Z`, `08:00:61.250000Z`, 1),
		"a bad code":   strings.Replace(listLine, `"code":200`, `"code":"200"`, 1),
		"a huge code":  strings.Replace(listLine, `"code":200`, `"code":99999999999999999999`, 1),
		"a bad escape": strings.Replace(listLine, `\u0026`, `\u00xy`, 1),
		"verb a list":  strings.Replace(listLine, `"list"`, `["list"]`, 1),
	} {
		var e Event
		check.ErrorIs(t, e.Parse([]byte(line)), ErrMalformed, "%s", name)
	}
}

func TestParseTime(t *testing.T) {
	parse := func(text string) (Event, error) {
		var e Event
		err := e.Parse([]byte(strings.Replace(listLine, "2026-11-20T08:00:01.250000Z", text, 1)))
		return e, err
	}
	for _, text := range []string{
		"2026-11-20T08:00:00.000001Z", "2024-02-29T23:59:59.999999Z", "2026-12-31T00:00:00.000000Z",
		"2026-11-20T08:00:00Z", "2026-11-20T09:00:00.5+01:00", "0001-01-01T00:00:00.000000Z",
	} {
		want, err := time.Parse(time.RFC3339Nano, text)
		check.NoError(t, err)
		if e, err := parse(text); err != nil || e.Staged != want.UnixMicro() {
			t.Errorf("%s: %d, %v; want %d", text, e.Staged, err, want.UnixMicro())
		}
	}
	for _, text := range []string{"", "now", "2026-13-20T08:00:00.000000Z", "2026-02-30T08:00:00.000000Z", "2026-11-20 08:00:00.000000Z"} {
		if e, err := parse(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %d, %v", text, e.Staged, err)
		}
	}
}

func TestParseQuery(t *testing.T) {
	for uri, want := range map[string]Query{
		"/api/v1/pods":                                       {},
		"/api/v1/pods?":                                      {},
		"/api/v1/pods?resourceVersion=":                      {},
		"/api/v1/pods?resourceVersion=0":                     {Version: "0"},
		"/api/v1/pods?limit=0":                               {},
		"/api/v1/pods?limit=-1":                              {},
		"/api/v1/pods?limit=x":                               {},
		"/api/v1/pods?limit=500&resourceVersion=0":           {Version: "0", Limit: 500},
		"/api/v1/pods?continue=abc&limit=500":                {Limit: 500, Continued: true},
		"/api/v1/pods?labelSelector=app%3Dweb":               {Selected: true},
		"/api/v1/pods?fieldSelector=spec.nodeName%3Dn1":      {Selected: true, OneNode: true},
		"/api/v1/pods?fieldSelector=metadata.name%3Dweb-0":   {Selected: true, OneObject: true},
		"/api/v1/pods?fieldSelector=metadata.namespace%3Da":  {Selected: true},
		"/api/v1/pods?resourceVersion=7&watch=1":             {Version: "7", resumes: true},
		"/api/v1/pods?timeoutSeconds=420&watch=1":            {Timeout: 420 * time.Second},
		"/api/v1/pods?timeoutSeconds=-1&watch=1":             {},
		"/api/v1/pods?timeoutSeconds=x&watch=1":              {},
		"/p?timeoutSeconds=9000000000000000000":              {Timeout: 7 * 24 * time.Hour},
		"/api/v1/pods?sendInitialEvents=true&watch=true":     {},
		"/p?resourceVersion=7&resourceVersionMatch=Exact":    {Version: "7", Exact: true, resumes: true},
		"/p?resourceVersion=7&resourceVersionMatch=NotOlder": {Version: "7", resumes: true},
	} {
		check.Equal(t, ParseQuery([]byte(uri)), want, "%s", uri)
	}
	for _, c := range []struct {
		query  Query
		quorum bool
	}{
		{Query{}, true}, {Query{Limit: 5}, true}, {Query{Version: "0"}, false}, {Query{Version: "7"}, false},
		{Query{Version: "7", Exact: true}, true}, {Query{Limit: 5, Continued: true}, false},
	} {
		check.Equal(t, c.query.Quorum(), c.quorum, "%+v: quorum", c.query)
	}
	for uri, want := range map[string]bool{
		"/p?limit=1": true, "/p?limit=1&resourceVersion=7&resourceVersionMatch=NotOlderThan": true, "/p?limit=2": false, "/p": false,
		"/p?limit=1&resourceVersion=0": false, "/p?limit=1&labelSelector=a": false, "/p?limit=1&continue=abc": true,
	} {
		check.Equal(t, ParseQuery([]byte(uri)).FirstOnly(), want, "%s: asks for the first only", uri)
	}
	for uri, want := range map[string]bool{
		"/p?watch=1": true, "/p?resourceVersion=0&watch=1": true, "/p?resourceVersion=7&watch=1": false,
		"/p?sendInitialEvents=true&watch=1": true, "/p?resourceVersion=7&sendInitialEvents=1&watch=1": true,
		"/p?sendInitialEvents=false&watch=1": false, "/p?resourceVersion=0&sendInitialEvents=False&watch=1": false,
	} {
		check.Equal(t, ParseQuery([]byte(uri)).InitialList(), want, "%s: begins with a LIST", uri)
	}
}

// jsonEvent is an event as encoding/json reads it.
type jsonEvent struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	AuditID    string `json:"auditID"`
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	Impersonated *struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	SourceIPs []string `json:"sourceIPs"`
	UserAgent string   `json:"userAgent"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		APIGroup    string `json:"apiGroup"`
		APIVersion  string `json:"apiVersion"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code   int32  `json:"code"`
		Reason string `json:"reason"`
	} `json:"responseStatus"`
	Received    time.Time         `json:"requestReceivedTimestamp"`
	Staged      time.Time         `json:"stageTimestamp"`
	Annotations map[string]string `json:"annotations"`
}

// FuzzParse compares Parse with a parser of the whole JSON.
func FuzzParse(f *testing.F) {
	f.Add([]byte(listLine))
	f.Add([]byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"Panic","stageTimestamp":"2026-11-20T08:00:01.250000Z","objectRef":null}`))
	f.Add([]byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"Panic","stageTimestamp":"2026-11-20T08:00:01.250000Z","user":{"extra":{"authentication.kubernetes.io/pod-name":null}}}`))
	f.Add([]byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"Panic","stageTimestamp":"2026-11-20T08:00:01.250000Z","user":{"username":"a"},"impersonatedUser":{"username":"b"}}`))
	f.Add([]byte(`{"a":[{"b":"\\"},1e-9,null],"userAgent":"\ud83d\ude00\ud83d","sourceIPs":[]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var m jsonEvent
		valid := json.Unmarshal(line, &m) == nil
		var e Event
		err := e.Parse(line)
		if !valid || m.Kind != "Event" || m.APIVersion != "audit.k8s.io/v1" || m.Stage == "" || m.Staged.IsZero() || m.Staged.UnixMicro() == 0 {
			return // Parse may accept or reject the line, but must not panic
		}
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		ip, object, code, reason := "", [6]string{}, int32(0), ""
		if len(m.SourceIPs) > 0 {
			ip = m.SourceIPs[0]
		}
		if o := m.ObjectRef; o != nil {
			object = [6]string{o.APIGroup, o.APIVersion, o.Resource, o.Subresource, o.Namespace, o.Name}
		}
		if m.ResponseStatus != nil {
			code, reason = m.ResponseStatus.Code, m.ResponseStatus.Reason
		}
		user, via := m.User.Username, ""
		if i := m.Impersonated; i != nil && i.Username != "" && i.Username != user {
			user, via = i.Username, user
		}
		o := e.Object
		got := []string{
			string(e.AuditID), string(e.Stage), string(e.URI), string(e.Verb), string(e.User), string(e.Via), string(e.Agent), string(e.IP),
			string(o.Group), string(o.Version), string(o.Resource), string(o.Subresource), string(o.Namespace), string(o.Name), string(e.Reason),
		}
		want := append([]string{m.AuditID, m.Stage, m.RequestURI, m.Verb, user, via, m.UserAgent, ip}, object[:]...)
		want = append(want, reason)
		for i := range want {
			check.Equal(t, got[i], want[i], "%q: field %d", line, i)
		}
		if e.Code != int(code) || e.Staged != m.Staged.UnixMicro() {
			t.Errorf("%q: code %d, staged %d", line, e.Code, e.Staged)
		}
	})
}

// BenchmarkParse parses an event of level Metadata. The target is at least 150 MB/s, because logs
// can have gigabytes.
func BenchmarkParse(b *testing.B) {
	line := []byte(listLine)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	var e Event
	for b.Loop() {
		check.NoError(b, e.Parse(line))
	}
}
