package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/transport"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		// The lumberjack library starts a goroutine for each audit log and never ends it.
		goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

const everything = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: None, users: [quiet]}\n- {level: RequestResponse, users: [loud]}\n- level: Metadata\n"

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// start returns a started Recorder, and a function that closes it and returns its events.
func start(t *testing.T) (*Recorder, func() []auditv1.Event) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit", "log")
	a, err := New(Config{PolicyFile: write(t, everything), LogPath: path})
	check.NoError(t, err)
	check.NoError(t, a.Start())
	return a, func() (events []auditv1.Event) {
		t.Helper()
		check.NoError(t, a.Close())
		raw, err := os.ReadFile(path)
		check.NoError(t, err)
		for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
			var e auditv1.Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			events = append(events, e)
		}
		return events
	}
}

func list(who string) *authorizer.AttributesRecord {
	return &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: "list", Resource: "pods", ResourceRequest: true}
}

// TestConfig checks that New rejects a policy or a destination that is missing or cannot be used,
// and that a nil Recorder records nothing.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	good := write(t, everything)
	for name, c := range map[string]Config{
		"no policy":         {LogPath: filepath.Join(dir, "log")},
		"no destination":    {PolicyFile: good},
		"no such policy":    {PolicyFile: filepath.Join(dir, "none"), LogPath: "-"},
		"no policy in it":   {PolicyFile: write(t, "rules: 1"), LogPath: "-"},
		"the log is a path": {PolicyFile: good, LogPath: dir},
		"no such webhook":   {PolicyFile: good, WebhookConfigFile: filepath.Join(dir, "none")},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	none, err := New(Config{})
	if none != nil || err != nil {
		t.Error(none, err)
	}
	if rec, err := none.Begin(nil, nil, false, time.Now()); rec != nil || err != nil || none.Start() != nil || none.Close() != nil {
		t.Error("no configuration records")
	}
}

// TestEnds checks that the last event of a request says how its response ended.
func TestEnds(t *testing.T) {
	for name, test := range map[string]struct {
		long, gone bool
		begun      int // status code of the response; 0: it has not begun
		failed     bool
		why        any
		stage      string
		code       int32
		message    string
	}{
		"whole":                     {begun: 404, stage: "ResponseComplete", code: 404},
		"gone before":               {gone: true, why: http.ErrAbortHandler, stage: "Panic", code: 500, message: "The response was cut off."},
		"gone before, without why":  {gone: true, stage: "ResponseComplete", code: 200, message: "Connection closed early"},
		"a watch whose client left": {long: true, gone: true, begun: 200, why: http.ErrAbortHandler, stage: "ResponseComplete", code: 200},
		"a panic":                   {why: errors.New("no\nstack"), stage: "Panic", code: 500, message: "The proxy has panicked: no"},
		"a broken connection":       {begun: 200, failed: true, stage: "ResponseComplete", code: 200, message: "Connection closed early"},
	} {
		t.Run(name, func(t *testing.T) {
			a, end := start(t)
			r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
			rec, err := a.Begin(r, list("jane"), true, time.Now())
			check.NoError(t, err)
			answer := httptest.NewRecorder()
			if rec.AddID(answer.Header()); test.long {
				rec.LongRunning()
			}
			if test.begun != 0 {
				rec.Responded(test.begun)
				rec.Responded(500) // does nothing
			}
			rec.Ended(test.why, test.failed, test.gone)
			all := end()
			last := all[len(all)-1]
			if string(last.Stage) != test.stage || answer.Header().Get("Audit-ID") != string(last.AuditID) || last.Annotations["authorization.k8s.io/reason"] == "" {
				t.Errorf("recorded %+v", last)
			}
			if st := last.ResponseStatus; st == nil || st.Code != test.code || st.Message != test.message {
				t.Errorf("recorded %+v", st)
			}
		})
	}
}

// TestBegin checks that the policy decides what is recorded. Begin must return an error for a read
// whose response the policy requires to be recorded.
func TestBegin(t *testing.T) {
	a, end := start(t)
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	if rec, err := a.Begin(r, list("quiet"), false, time.Now()); rec != nil || err != nil {
		t.Error(rec, err)
	}
	if _, err := a.Begin(r, list("loud"), false, time.Now()); !errors.Is(err, errNotRecorded) {
		t.Error(err)
	}
	rec, err := a.Impersonated(r, list("loud"), &transport.ImpersonationConfig{UserName: "joe"}, time.Now())
	check.NoError(t, err)
	forwarded := rec.Forward(r)
	if again := a.Refused(forwarded, list("loud"), errors.New("no"), time.Now()); again != nil {
		t.Error("a request with a record gets another")
	}
	rec.Ended(nil, false, false)
	a.Refused(r, list("jane"), errors.New("no"), time.Now()).Ended(nil, false, false)
	all := end()
	if len(all) != 4 || all[1].ImpersonatedUser.Username != "joe" || string(all[1].Level) != "Metadata" ||
		forwarded.Header.Get("Audit-ID") != string(all[1].AuditID) || all[3].ResponseStatus.Reason != "InternalError" {
		t.Errorf("recorded %+v", all)
	}
}
