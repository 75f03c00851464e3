package audit

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// Record is the audit event of one request.
type Record struct {
	ac  *audit.AuditContext
	ctx context.Context // carries ac
}

// Writer returns a ResponseWriter that records the response, and adds the event's id to the
// response header. long says that the start of the response is recorded, too. The caller must call
// End or Ended.
func (rec *Record) Writer(w http.ResponseWriter, long bool) *Writer {
	w.Header().Set(auditinternal.HeaderAuditID, string(rec.ac.AuditID()))
	return &Writer{ResponseWriter: w, record: rec, long: long}
}

// Forward returns a Writer for the response, and the request to forward instead of r. That request
// has the id of this event, so the upstream uses the same id in its event and its response header.
func (rec *Record) Forward(w http.ResponseWriter, r *http.Request, long bool) (*Writer, *http.Request) {
	r = r.WithContext(rec.ctx)
	r.Header = r.Header.Clone()
	r.Header.Set(auditinternal.HeaderAuditID, string(rec.ac.AuditID()))
	return &Writer{ResponseWriter: w, record: rec, long: long}, r
}

// Writer records the response to a request.
type Writer struct {
	http.ResponseWriter
	record *Record
	long   bool // the start of the response is recorded, too
	begun  bool
	failed bool // a write has failed
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *Writer) recordCode(code int) {
	if w.begun || code < http.StatusOK && code != http.StatusSwitchingProtocols {
		return
	}
	w.begun = true
	w.record.ac.SetEventResponseStatusCode(int32(code))
	if w.long {
		w.record.ac.ProcessEventStage(w.record.ctx, auditinternal.StageResponseStarted)
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(code int) {
	w.recordCode(code)
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(p []byte) (int, error) {
	w.recordCode(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.failed = w.failed || err != nil
	return n, err
}

// Hijack takes over the connection of a request that is upgraded.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.recordCode(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// End records the end of the response, complete or not. The caller must defer it: if the caller
// panics, End records the panic and panics again.
func (w *Writer) End() {
	why := recover()
	if why != nil {
		defer panic(why)
	}
	w.Ended(why)
}

// Ended records the end of the response. why is the value of the panic that ended it, or nil. As
// kube-apiserver does, Ended records a panic in the stage Panic with code 500. Ended records
// http.ErrAbortHandler as a normal end if the request is long-running and its client has
// disconnected. Such requests usually end in this way.
func (w *Writer) Ended(why any) {
	gone := w.record.ctx.Err() != nil
	if why != nil && !(why == http.ErrAbortHandler && w.long && w.begun && gone) {
		w.record.ac.SetEventResponseStatus(&metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: panicMessage(why),
		})
		w.record.ac.ProcessEventStage(w.record.ctx, auditinternal.StagePanic)
		return
	}
	early := !w.long && w.failed || !w.begun && gone
	w.recordCode(http.StatusOK)
	if st := w.record.ac.GetEventResponseStatus(); early && st.Code == http.StatusOK {
		w.record.ac.SetEventResponseStatus(&metav1.Status{Status: metav1.StatusSuccess, Code: st.Code, Message: "Connection closed early"})
	}
	w.record.ac.ProcessEventStage(w.record.ctx, auditinternal.StageResponseComplete)
}

// panicMessage returns a message for a panic with the value why. The value of a worker's panic ends
// with a stack. panicMessage removes the stack, which belongs in the log.
func panicMessage(why any) string {
	if why == http.ErrAbortHandler {
		return "The response was cut off."
	}
	text, _, _ := strings.Cut(fmt.Sprint(why), "\n")
	return "The proxy has panicked: " + text
}
