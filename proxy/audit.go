package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"gopkg.in/natefinch/lumberjack.v2"
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

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Audit configures the audit log of requests that the proxy answers itself, and of those that it
// forwards for a caller with a certificate who impersonates, in kube-apiserver's format and by a
// policy of its kind. Other forwarded requests are recorded upstream. The zero value records
// nothing.
type Audit struct {
	// PolicyFile is a file with a Policy of audit.k8s.io/v1. Reads that are to be recorded with
	// their response are forwarded.
	PolicyFile string
	// LogPath is the file to append to; "-" is standard output. The file is rotated at MaxSize
	// megabytes (0: 100). MaxBackups old files are kept (0: all), for MaxAge days (0: for ever).
	LogPath                     string
	MaxSize, MaxBackups, MaxAge int
	// WebhookConfigFile is a kubeconfig for a webhook that gets the events too, in batches. At most
	// 10,000 events are buffered.
	WebhookConfigFile string
}

// validate is Options.Validate for the audit log.
func (o *Audit) validate() error {
	if *o != (Audit{}) && (o.PolicyFile == "" || o.LogPath == "" && o.WebhookConfigFile == "") {
		return fmt.Errorf("%w: an audit needs a policy, and a log or a webhook", ErrOptions)
	}
	return nil
}

// auditor records requests. A nil auditor records nothing. It is safe for concurrent use, except
// for start and close.
type auditor struct {
	policy  audit.PolicyRuleEvaluator
	sink    *checkedSink
	file    io.Closer     // nil: nothing to close
	stopped chan struct{} // close closes it; nil before start
}

const (
	defaultAuditSize = 100 // MB
	// The limits of events for a webhook, as in kube-apiserver.
	auditBuffer    = 10_000
	auditBatch     = 400
	auditBatchWait = 30 * time.Second
	auditBatchRate = 10 // batches a second
	auditBurst     = 15
)

func newAuditor(o *Audit) (*auditor, error) {
	if *o == (Audit{}) {
		return nil, nil
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	rules, err := policy.LoadPolicyFromFile(o.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("%w: audit policy: %w", ErrOptions, err)
	}
	a := &auditor{policy: policy.NewPolicyRuleEvaluator(rules)}
	var backends []audit.Backend
	if o.WebhookConfigFile != "" {
		hook, err := auditwebhook.NewBackend(o.WebhookConfigFile, auditv1.SchemeGroupVersion, webhook.DefaultRetryBackoffWithInitialDelay(auditwebhook.DefaultInitialBackoffDelay), nil)
		if err != nil {
			return nil, fmt.Errorf("%w: audit webhook: %w", ErrOptions, err)
		}
		backends = append(backends, buffered.NewBackend(hook, buffered.BatchConfig{
			BufferSize: auditBuffer, MaxBatchSize: auditBatch, MaxBatchWait: auditBatchWait, ThrottleEnable: true, ThrottleQPS: auditBatchRate,
			ThrottleBurst: auditBurst, AsyncDelegate: true,
		}))
	}
	if o.LogPath != "" {
		to, err := a.open(o)
		if err != nil {
			return nil, fmt.Errorf("%w: audit log: %w", ErrOptions, err)
		}
		backends = append(backends, auditlog.NewBackend(to, auditlog.FormatJson, auditv1.SchemeGroupVersion))
	}
	a.sink = &checkedSink{Backend: audit.Union(backends...)}
	return a, nil
}

// open opens the log. It fails now, not at the first read, if the file cannot be written.
func (a *auditor) open(o *Audit) (io.Writer, error) {
	if o.LogPath == "-" {
		return os.Stdout, nil
	}
	if err := os.MkdirAll(filepath.Dir(o.LogPath), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(o.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	size := o.MaxSize
	orDefault(&size, defaultAuditSize)
	// The library never ends its goroutine that removes old files: one for each server with a log.
	file := &lumberjack.Logger{Filename: o.LogPath, MaxSize: size, MaxBackups: o.MaxBackups, MaxAge: o.MaxAge}
	a.file = file
	return file, nil
}

// start starts the backends. close stops them.
func (a *auditor) start() error {
	if a == nil {
		return nil
	}
	a.stopped = make(chan struct{})
	return a.sink.Run(a.stopped)
}

// close flushes the backends and waits for them.
func (a *auditor) close() error {
	if a == nil {
		return nil
	}
	if a.stopped != nil {
		close(a.stopped)
		a.sink.Shutdown()
	}
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// auditRecord is the audit event of one request. nil records nothing.
type auditRecord struct {
	ac  *audit.AuditContext
	ctx context.Context // with ac
}

// errNotRecorded is returned for a request that must be recorded and cannot be recorded here.
var errNotRecorded = errors.New("the request cannot be recorded")

// begin records that a caller whom a decision has authorized asks for a read, or for /metrics.
func (a *auditor) begin(r *http.Request, rq *request.Request, who user.Info, by decision, received time.Time) (*auditRecord, error) {
	if a == nil {
		return nil, nil
	}
	attrs := attributesOf(rq, who)
	rule := a.policy.EvaluatePolicyRule(attrs)
	if rule.Level == auditinternal.LevelRequestResponse && attrs.IsResourceRequest() && rq.Verb != "watch" {
		return nil, errNotRecorded
	}
	why := ""
	if by == decisionGrace {
		why = "the upstream does not answer, and its last answer allowed it"
	}
	return a.record(r, attrs, rule, received, "authorization.k8s.io/decision", "allow", "authorization.k8s.io/reason", why)
}

// refused records a request that is answered with an error. It is answered so in any case, also if
// that cannot be recorded.
func (a *auditor) refused(r *http.Request, attrs authorizer.Attributes, why error, received time.Time) *auditRecord {
	if audit.AuditContextFrom(r.Context()) != nil { // it has a record
		return nil
	}
	rec, err := a.record(r, attrs, a.policy.EvaluatePolicyRule(attrs), received)
	if rec == nil || err != nil {
		return nil
	}
	rec.ac.LogResponseObject(watchcache.StatusOf(why), nil)
	return rec
}

// impersonated records that a caller has asked for something in the name of another, which is
// forwarded. The upstream's event has the proxy in place of the caller, and all that is not
// metadata.
func (a *auditor) impersonated(r *http.Request, attrs authorizer.Attributes, to *transport.ImpersonationConfig, received time.Time) (*auditRecord, error) {
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

// record begins the event of a request. It returns nil if the rule wants none.
func (a *auditor) record(r *http.Request, attrs authorizer.Attributes, rule audit.RequestAuditConfig, received time.Time, annotations ...string) (*auditRecord, error) {
	ctx := audit.WithAuditContext(r.Context())
	id := types.UID(r.Header.Get(auditinternal.HeaderAuditID))
	if id == "" {
		id = types.UID(uuid.NewString())
	}
	audit.WithAuditID(ctx, id)
	rec := &auditRecord{ac: audit.AuditContextFrom(ctx), ctx: ctx}
	if err := rec.ac.Init(rule, a.sink); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotRecorded, err)
	}
	if !rec.ac.Enabled() {
		return nil, nil
	}
	audit.LogRequestMetadata(ctx, r, received, attrs)
	audit.AddAuditAnnotations(ctx, annotations...)
	first := auditinternal.StageRequestReceived
	if slices.Contains(rule.OmitStages, first) && !a.sink.mayAnswer() || !rec.ac.ProcessEventStage(ctx, first) {
		audit.ApiserverAuditDroppedCounter.WithContext(ctx).Inc()
		return nil, errNotRecorded
	}
	return rec, nil
}

// request returns the request to forward, for which the upstream's event has the same id.
func (rec *auditRecord) request(r *http.Request) *http.Request {
	r = r.WithContext(rec.ctx)
	r.Header = r.Header.Clone()
	r.Header.Set(auditinternal.HeaderAuditID, string(rec.ac.AuditID()))
	return r
}
