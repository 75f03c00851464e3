package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/proxy/internal/review"
)

// TestReviewsKeepNothing checks that the cached answers of reviews do not keep the text of the
// requests in memory, however many reviews a caller causes.
func TestReviewsKeepNothing(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{Authentication: Authentication{AllowTTL: time.Hour, DenyTTL: time.Hour}})
	u.deny(func(authorizationv1.SubjectAccessReviewSpec) bool { return true })
	const reviews, size = 200, 8 << 10
	used := func() int64 {
		u.set(func() { u.reviews, u.requests = nil, nil })
		return heapAfterGC()
	}
	ask := func(n int) {
		for i := range n {
			text := fmt.Sprintf("metadata.name!=%s%d", strings.Repeat("<", size), i)
			q := question("list", "pods", "")
			q.Fields, q.FieldText = fields.ParseSelectorOrDie(text), text
			if d := tp.server.authz.Allows(t.Context(), &user.DefaultInfo{Name: "joe"}, q, review.Options{}); d != review.Deny {
				t.Fatal(d)
			}
		}
	}
	ask(10)
	before := used()
	ask(reviews)
	if grown := used() - before; grown > reviews*size {
		t.Errorf("%d reviews of %d bytes have left %d", reviews, size, grown)
	}
}
