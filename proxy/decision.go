package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// decision is what a question about a caller led to. Only yes and graced let anybody do anything.
type decision int

const (
	// decisionDeny: the upstream said no. The zero value.
	decisionDeny decision = iota
	// decisionAllow: the upstream said yes, now or as lately as an answer counts.
	decisionAllow
	// decisionGrace: the upstream cannot be reached. Its last answer was yes, and is no older than
	// the terms allow.
	decisionGrace
	// decisionUnreachable: the upstream cannot be reached, and no earlier answer counts.
	decisionUnreachable
	// decisionUnanswered: the upstream can be reached, and did not answer the question. That says
	// nothing about the caller.
	decisionUnanswered
	// decisionOverloaded: the question was not asked, because too many strangers are being asked
	// about.
	decisionOverloaded
)

// reviewOptions say on what terms a question about a caller is answered. The zero value is for a
// caller who is not known, and wants more than to read.
type reviewOptions struct {
	// grace is how old the last answer may be while the upstream cannot be reached. 0 or less: it
	// does not count.
	grace time.Duration
	// uncached: the upstream is asked, whatever it has answered a moment ago. The caller was let in
	// before, and needs no seat among strangers.
	uncached bool
}

// err returns what a caller is told who gets no answer; nil for yes, graced and no.
func (d decision) err() error {
	switch d {
	case decisionUnreachable:
		return errUnavailable("the upstream API server does not answer")
	case decisionUnanswered:
		return errUnavailable("the upstream API server does not answer questions about callers")
	case decisionOverloaded:
		return apierrors.NewTooManyRequests("Too many unknown callers, please try again later.", retryAfterSeconds)
	}
	return nil
}

// errUnavailable returns a 503 with Retry-After.
func errUnavailable(why string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: why,
		Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds},
	}}
}

// hasStatus reports whether an error, or one of several, is an answer of the upstream's.
func hasStatus(err error) bool {
	if all, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		for _, e := range all.Errors() {
			if hasStatus(e) {
				return true
			}
		}
	}
	_, ok := errors.AsType[*apierrors.StatusError](err)
	return ok
}

// isNetworkError reports whether an error is of the network, or of a question that was not waited
// for.
func isNetworkError(err error) bool {
	if all, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		for _, e := range all.Errors() {
			if isNetworkError(e) {
				return true
			}
		}
	}
	_, ofURL := errors.AsType[*url.Error](err)
	_, ofNet := errors.AsType[net.Error](err)
	return ofURL || ofNet || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
