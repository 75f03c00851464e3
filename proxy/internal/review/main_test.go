package review

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/proxy/internal/seats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newReviewSeats returns a Pool that bounds the concurrent reviews.
func newReviewSeats(wait time.Duration) *seats.Pool {
	return seats.NewPool(seats.MaxReviews, seats.MaxReviews, wait)
}

// question returns a request for the Authorizer to decide.
func question(verb, resource, name string) *request.Request {
	return &request.Request{Info: request.Info{OfResource: true, Verb: verb, Path: request.Path{Resource: resource, Name: name}}}
}
