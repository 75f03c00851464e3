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

// order tells a stub what to do with the current watches and with new ones.
type order struct {
	Do     string `json:"do"`
	Change string `json:"change,omitempty"` // for modify: one of Changes
	// Rate is the number of events per second, for modify. 0: as fast as the client reads them.
	Rate  float64 `json:"rate,omitempty"`
	Times int     `json:"times,omitempty"` // for expire
	Keep  int     `json:"keep,omitempty"`  // for remove
}

// The values of order.Do.
const (
	doHold = "hold" // send nothing on open watches
	// doModify sends MODIFIED events of all objects in turn, with ascending resourceVersions, until
	// the next order.
	doModify  = "modify"
	doRollout = "rollout" // send the changes of one rollout, then hold
	doExpire  = "expire"  // end each of the next Times watches with 410 Expired, then hold
	doRemove  = "remove"  // send DELETED for all objects except each Keep-th one, then hold
)

const (
	controlPath = "/stub/order" // accepts an order, with POST
	// settledPath answers a GET when the order is carried out and a watch is open. The answer is the
	// resourceVersion that was sent last.
	settledPath = "/stub/settled"
)

// tell sends an order to a stub. It returns when the stub has accepted the order.
func tell(ctx context.Context, stub string, o order) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = call(ctx, http.MethodPost, stub+controlPath, body)
	return err
}

// waitSettled blocks until a stub has carried out its order and an open watch waits for the next
// order. It returns the resourceVersion of the last event that was sent to that watch.
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
	r.Close = true // close the connection: its goroutines would count as the informer's
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
