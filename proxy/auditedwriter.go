package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
)

// writer returns a ResponseWriter that records the response. The caller must call end, or ended.
func (rec *auditRecord) writer(w http.ResponseWriter, long bool) *auditedWriter {
	w.Header().Set(auditinternal.HeaderAuditID, string(rec.ac.AuditID()))
	return &auditedWriter{ResponseWriter: w, record: rec, long: long}
}

// auditedWriter records the response to a request.
type auditedWriter struct {
	http.ResponseWriter
	record *auditRecord
	long   bool // the start of the response is recorded too
	begun  bool
	failed bool // a write has failed
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *auditedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *auditedWriter) recordCode(code int) {
	if w.begun || code < http.StatusOK && code != http.StatusSwitchingProtocols {
		return
	}
	w.begun = true
	w.record.ac.SetEventResponseStatusCode(int32(code))
	if w.long {
		w.record.ac.ProcessEventStage(w.record.ctx, auditinternal.StageResponseStarted)
	}
}

func (w *auditedWriter) WriteHeader(code int) {
	w.recordCode(code)
	w.ResponseWriter.WriteHeader(code)
}

func (w *auditedWriter) Write(p []byte) (int, error) {
	w.recordCode(http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.failed = w.failed || err != nil
	return n, err
}

// Hijack takes over the connection, for an upgrade.
func (w *auditedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.recordCode(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// end records the end of the response, complete or not. It must be deferred: it records a panic,
// too, and panics on.
func (w *auditedWriter) end() {
	why := recover()
	if why != nil {
		defer panic(why)
	}
	w.ended(why)
}

// ended records the end of the response, or that it was broken off by a panic with why, as
// kube-apiserver does: in the stage Panic, with code 500. That the caller of a long-running request
// has gone is its usual end.
func (w *auditedWriter) ended(why any) {
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

// panicMessage tells why an answer was broken off. What a worker has panicked with ends in a stack,
// which is for the log.
func panicMessage(why any) string {
	if why == http.ErrAbortHandler {
		return "The answer was broken off."
	}
	text, _, _ := strings.Cut(fmt.Sprint(why), "\n")
	return "The proxy has panicked: " + text
}
