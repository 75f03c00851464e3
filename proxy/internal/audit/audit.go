// Package audit records requests in kube-apiserver's format, with an audit policy as in
// kube-apiserver.
package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"gopkg.in/natefinch/lumberjack.v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	auditwebhook "k8s.io/apiserver/plugin/pkg/audit/webhook"
	"k8s.io/client-go/transport"

	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Config configures a Recorder. proxy.Audit is the same type and documents the fields.
type Config struct {
	PolicyFile                  string
	LogPath                     string
	MaxSize, MaxBackups, MaxAge int
	WebhookConfigFile           string
}

// Validate returns an error for a policy without a destination, or a destination without a policy.
// It reads no file.
func (c *Config) Validate() error {
	if *c != (Config{}) && (c.PolicyFile == "" || c.LogPath == "" && c.WebhookConfigFile == "") {
		return errors.New("an audit needs a policy, and a log or a webhook")
	}
	return nil
}

// Recorder records requests. A nil Recorder records nothing. A Recorder is safe for concurrent use,
// except for Start and Close.
type Recorder struct {
	Sink    *Sink
	policy  audit.PolicyRuleEvaluator
	file    io.Closer     // nil: nothing to close
	stopped chan struct{} // Close closes it; nil before Start
}

const (
	defaultSize = 100 // MB
	// These limits of events for a webhook are those of kube-apiserver.
	bufferedEvents   = 10_000
	batchSize        = 400
	batchWait        = 30 * time.Second
	batchesPerSecond = 10
	batchBurst       = 15
)

// New returns a Recorder, or nil if the configuration is empty. It reads the policy, and returns an
// error if the log file cannot be opened for writing.
func New(c Config) (*Recorder, error) {
	if c == (Config{}) {
		return nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	rules, err := policy.LoadPolicyFromFile(c.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	a := &Recorder{policy: policy.NewPolicyRuleEvaluator(rules)}
	var backends []audit.Backend
	if c.WebhookConfigFile != "" {
		hook, err := auditwebhook.NewBackend(c.WebhookConfigFile, auditv1.SchemeGroupVersion, webhook.DefaultRetryBackoffWithInitialDelay(auditwebhook.DefaultInitialBackoffDelay), nil)
		if err != nil {
			return nil, fmt.Errorf("audit webhook: %w", err)
		}
		backends = append(backends, buffered.NewBackend(hook, buffered.BatchConfig{
			BufferSize: bufferedEvents, MaxBatchSize: batchSize, MaxBatchWait: batchWait, ThrottleEnable: true, ThrottleQPS: batchesPerSecond,
			ThrottleBurst: batchBurst, AsyncDelegate: true,
		}))
	}
	if c.LogPath != "" {
		to, err := a.open(&c)
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		backends = append(backends, auditlog.NewBackend(to, auditlog.FormatJson, auditv1.SchemeGroupVersion))
	}
	a.Sink = &Sink{Backend: audit.Union(backends...)}
	return a, nil
}

// open returns a writer to the log. It creates the file immediately, so that a log that cannot be
// written fails now, and not when the first event is recorded.
func (a *Recorder) open(c *Config) (io.Writer, error) {
	if c.LogPath == "-" {
		return os.Stdout, nil
	}
	if err := os.MkdirAll(filepath.Dir(c.LogPath), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(c.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	size := c.MaxSize
	if size <= 0 {
		size = defaultSize
	}
	// Each Recorder with a log leaks a goroutine: lumberjack never ends its goroutine that removes old
	// files.
	file := &lumberjack.Logger{Filename: c.LogPath, MaxSize: size, MaxBackups: c.MaxBackups, MaxAge: c.MaxAge}
	a.file = file
	return file, nil
}

// Start starts the backends, which run until Close. On a nil Recorder it does nothing.
func (a *Recorder) Start() error {
	if a == nil {
		return nil
	}
	a.stopped = make(chan struct{})
	return a.Sink.Run(a.stopped)
}

// Close stops the backends after they have written all events, and closes the log file.
func (a *Recorder) Close() error {
	if a == nil {
		return nil
	}
	if a.stopped != nil {
		close(a.stopped)
		a.Sink.Shutdown()
	}
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// errNotRecorded is returned when the policy requires a record that the proxy cannot write.
var errNotRecorded = errors.New("the request cannot be recorded")

// Begin starts the audit record of a read, or of a request for /metrics, whose caller is
// authorized. byGrace says that the upstream does not answer, and that its last answer allowed the
// request. Begin returns a nil Record if the policy requires no record. It returns an error if the
// proxy must not answer the request: the policy requires a record of the response, or the log
// cannot be written. The proxy then forwards a read, and refuses a request for /metrics.
func (a *Recorder) Begin(r *http.Request, attrs authorizer.Attributes, byGrace bool, received time.Time) (*Record, error) {
	if a == nil {
		return nil, nil
	}
	rule := a.policy.EvaluatePolicyRule(attrs)
	if rule.Level == auditinternal.LevelRequestResponse && attrs.IsResourceRequest() && attrs.GetVerb() != "watch" {
		return nil, errNotRecorded
	}
	why := ""
	if byGrace {
		why = "the upstream does not respond, and its last response allowed the request"
	}
	return a.record(r, attrs, rule, received, "authorization.k8s.io/decision", "allow", "authorization.k8s.io/reason", why)
}

// Refused starts the record of a request that the proxy answers with the given error (why). It
// returns nil if the request already has a record, needs none, or cannot be recorded. The proxy
// answers with this error in any case.
func (a *Recorder) Refused(r *http.Request, attrs authorizer.Attributes, why error, received time.Time) *Record {
	if audit.AuditContextFrom(r.Context()) != nil {
		return nil
	}
	rec, err := a.record(r, attrs, a.policy.EvaluatePolicyRule(attrs), received)
	if rec == nil || err != nil {
		return nil
	}
	rec.ac.LogResponseObject(watchcache.StatusOf(why), nil)
	return rec
}

// Impersonated starts the record of a forwarded request in which a caller impersonates another
// user. The upstream also records the request, but its event names the proxy instead of the caller.
// All other parts are in the upstream's event, so Impersonated records metadata only. Impersonated
// returns a nil Record if the policy requires none, and an error if the log cannot be written.
func (a *Recorder) Impersonated(r *http.Request, attrs authorizer.Attributes, to *transport.ImpersonationConfig, received time.Time) (*Record, error) {
	if a == nil {
		return nil, nil
	}
	rule := a.policy.EvaluatePolicyRule(attrs)
	if auditinternal.LevelMetadata.Less(rule.Level) {
		rule.Level = auditinternal.LevelMetadata
	}
	rec, err := a.record(r, attrs, rule, received)
	if rec == nil || err != nil {
		return nil, err
	}
	rec.ac.LogImpersonatedUser(&user.DefaultInfo{Name: to.UserName, UID: to.UID, Groups: to.Groups, Extra: to.Extra}, "")
	return rec, nil
}

// record starts the event of a request. It returns nil if the rule requires no event, and an error
// if the event cannot be recorded.
func (a *Recorder) record(r *http.Request, attrs authorizer.Attributes, rule audit.RequestAuditConfig, received time.Time, annotations ...string) (*Record, error) {
	ctx := audit.WithAuditContext(r.Context())
	id := types.UID(r.Header.Get(auditinternal.HeaderAuditID))
	if id == "" {
		id = types.UID(uuid.NewString())
	}
	audit.WithAuditID(ctx, id)
	rec := &Record{ac: audit.AuditContextFrom(ctx), ctx: ctx}
	if err := rec.ac.Init(rule, a.Sink); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotRecorded, err)
	}
	if !rec.ac.Enabled() {
		return nil, nil
	}
	audit.LogRequestMetadata(ctx, r, received, attrs)
	audit.AddAuditAnnotations(ctx, annotations...)
	first := auditinternal.StageRequestReceived
	if slices.Contains(rule.OmitStages, first) && !a.Sink.mayAnswer() || !rec.ac.ProcessEventStage(ctx, first) {
		audit.ApiserverAuditDroppedCounter.WithContext(ctx).Inc()
		return nil, errNotRecorded
	}
	return rec, nil
}

// retryAfter is the time between two requests that are answered although the last event could not
// be recorded. These requests show whether the log can be written again.
const retryAfter = time.Second

// Sink remembers whether the last event was recorded. A policy may omit the stage RequestReceived,
// as the example policy of Kubernetes does. Then the proxy writes no event before it answers, and
// only Sink shows that the log cannot be written. Sink is safe for concurrent use.
type Sink struct {
	audit.Backend
	// failed is 0 if the last event was recorded. Otherwise it is the time of the failure, or the time
	// when mayAnswer last returned true after the failure, in nanoseconds since 1970.
	failed atomic.Int64
}

// ProcessEvents implements [audit.Sink].
func (s *Sink) ProcessEvents(events ...*auditinternal.Event) bool {
	ok := s.Backend.ProcessEvents(events...)
	if ok {
		s.failed.Store(0)
	} else {
		s.failed.Store(time.Now().UnixNano())
	}
	return ok
}

// mayAnswer reports whether the proxy may answer a request whose first event is recorded only after
// the answer. After a failure it returns true once per retryAfter.
func (s *Sink) mayAnswer() bool {
	last, now := s.failed.Load(), time.Now().UnixNano()
	return last == 0 || now-last >= int64(retryAfter) && s.failed.CompareAndSwap(last, now)
}

// Record is the audit event of one request. Only one goroutine uses it at a time.
type Record struct {
	ac    *audit.AuditContext
	ctx   context.Context // contains ac
	long  bool            // the start of the response is recorded, too
	begun bool
}

// LongRunning makes the Record also record the start of the response.
func (rec *Record) LongRunning() { rec.long = true }

// AddID adds the event's id to the header of a response, or to the header of a request that is
// forwarded. If the header belongs to a request, the upstream uses the same id in its event and its
// response header.
func (rec *Record) AddID(h http.Header) { h.Set(auditinternal.HeaderAuditID, string(rec.ac.AuditID())) }

// Forward returns the request to forward. It has the id of this event.
func (rec *Record) Forward(r *http.Request) *http.Request {
	r = r.WithContext(rec.ctx)
	r.Header = r.Header.Clone()
	rec.AddID(r.Header)
	return r
}

// Responded records the status code of the final response, which is never informational (1xx).
// Later calls do nothing.
func (rec *Record) Responded(code int) {
	if rec.begun {
		return
	}
	rec.begun = true
	rec.ac.SetEventResponseStatusCode(int32(code))
	if rec.long {
		rec.ac.ProcessEventStage(rec.ctx, auditinternal.StageResponseStarted)
	}
}

// Ended records the end of the response, complete or not. why is the value of the panic that ended
// it, or nil. failed says that a write of the response has failed, and gone that the client has
// gone away. As kube-apiserver does, Ended records a panic in the stage Panic with code 500. Ended
// records http.ErrAbortHandler as a normal end if the request is long-running and its client has
// disconnected. Such requests usually end in this way.
func (rec *Record) Ended(why any, failed, gone bool) {
	if why != nil && !(why == http.ErrAbortHandler && rec.long && rec.begun && gone) {
		rec.ac.SetEventResponseStatus(&metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: panicMessage(why),
		})
		rec.ac.ProcessEventStage(rec.ctx, auditinternal.StagePanic)
		return
	}
	early := !rec.long && failed || !rec.begun && gone
	rec.Responded(http.StatusOK)
	if st := rec.ac.GetEventResponseStatus(); early && st.Code == http.StatusOK {
		rec.ac.SetEventResponseStatus(&metav1.Status{Status: metav1.StatusSuccess, Code: st.Code, Message: "Connection closed early"})
	}
	rec.ac.ProcessEventStage(rec.ctx, auditinternal.StageResponseComplete)
}

// panicMessage returns a message for a panic with the value why. It keeps only the first line of
// the value. The other lines may be a stack, which belongs in the log.
func panicMessage(why any) string {
	if why == http.ErrAbortHandler {
		return "The response was cut off."
	}
	text, _, _ := strings.Cut(fmt.Sprint(why), "\n")
	return "The proxy has panicked: " + text
}
