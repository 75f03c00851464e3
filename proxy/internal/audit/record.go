package audit

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

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
