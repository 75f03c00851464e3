package watchcache

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/serve/budget"
)

// Payer is the share of a budget to which the responses of a request are charged that wait for the
// client to read them.
type Payer struct {
	Budget *budget.Budget
	Level  int
	Share  string
	// Most is how much of the budget the share may have. Above half of it, LISTs are not compressed.
	Most int64
}

type payerKey struct{}

// WithPayer returns a context for a LIST or GET that is charged to a Payer. Without one, nothing is
// counted.
func WithPayer(ctx context.Context, p *Payer) context.Context {
	return context.WithValue(ctx, payerKey{}, p)
}

// payerOf returns the Payer of a request, or nil.
func payerOf(ctx context.Context) *Payer {
	p, _ := ctx.Value(payerKey{}).(*Payer)
	return p
}

const unreadRetrySeconds = 1

// ErrUnread is the 429 of a request whose response would exceed the bytes that may wait to be read.
var ErrUnread = apierrors.NewTooManyRequests("The responses that the caller has not read yet take all the memory that they may, please try again later.", unreadRetrySeconds)

// isUnread reports whether an error is ErrUnread, and not another StatusError.
func isUnread(err error) bool { return errors.Is(err, ErrUnread) }

// charge returns a charge of n bytes, or ErrUnread. It is nil for no Payer.
func (p *Payer) charge(n int64) (*budget.Charge, error) {
	if p == nil {
		return nil, nil
	}
	c, err := p.Budget.Take(p.Level, p.Share, n)
	if err != nil {
		return nil, ErrUnread
	}
	return c, nil
}

// affords reports whether n more bytes leave the share half of what it may have.
func (p *Payer) affords(n int64) bool {
	return p == nil || p.Share == "" || p.Budget.ShareBytes(p.Level, p.Share)+n <= p.Most/2
}
