package informers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// order tells a stub what to do with the watches that it holds, and with those that come.
type order struct {
	Do     string `json:"do"`
	Change string `json:"change,omitempty"` // of modify: one of Changes
	// Rate is the events a second of modify. 0: as fast as they are taken.
	Rate  float64 `json:"rate,omitempty"`
	Times int     `json:"times,omitempty"` // of expire
	Keep  int     `json:"keep,omitempty"`  // of remove
}

// What a stub can be told to do.
const (
	doHold = "hold" // nothing: a watch stays open and says nothing
	// doModify sends MODIFIED events over all objects, each with a higher resourceVersion, until told
	// otherwise.
	doModify  = "modify"
	doRollout = "rollout" // send the changes of one rollout, then hold
	doExpire  = "expire"  // end the next Times watches with 410 Expired, each at once, then hold
	doRemove  = "remove"  // send a DELETED event for every object but each Keep-th, then hold
)

const (
	controlPath = "/stub/order" // POST an order
	// GET settledPath answers when a watch is open and the order has been carried out, with the
	// version sent last.
	settledPath = "/stub/settled"
)

// tell sends an order to a stub and returns when the stub has accepted it.
func tell(ctx context.Context, stub string, o order) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = call(ctx, http.MethodPost, stub+controlPath, body)
	return err
}

// waitSettled blocks until a stub has carried out its order and has an open watch that waits for
// the next one. It returns the resourceVersion up to which that watch was sent everything.
func waitSettled(ctx context.Context, stub string) (int64, error) {
	said, err := call(ctx, http.MethodGet, stub+settledPath, nil)
	if err != nil {
		return 0, err
	}
	rv, err := resourceversion.Parse(said)
	return int64(rv), err
}

func call(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Close = true // leaves no goroutine behind that would be counted
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("stub: %s: %s", answer.Status, bytes.TrimSpace(said))
	}
	return said, nil
}
