package storage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	apistorage "k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/rest"
)

// watches are the WATCHes of a suite. When the suite ends, they are stopped, because suites do not
// stop all of them.
type watches struct {
	ctx     context.Context // ends all watches
	running sync.WaitGroup
}

// begun is a WATCH of client-go that buffers its events. Suites read some events late, even after
// Stop, which kube-apiserver's storage permits.
type begun struct {
	results chan watch.Event
	stop    context.CancelFunc
}

// maxKept is the size of the event buffer. If a suite reads no events, the watch blocks when the
// buffer is full.
const maxKept = 100

// begin starts a WATCH. The WATCH ends with ctx, at the end of the suite, or by Stop.
func (ws *watches) begin(ctx context.Context, req *rest.Request) (watch.Interface, error) {
	w := &begun{results: make(chan watch.Event, maxKept)}
	own, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(ws.ctx, cancel)
	w.stop = func() {
		release()
		cancel()
	}
	from, err := req.Watch(own)
	if err != nil && ctx.Err() != nil { // a disconnected client receives no error
		w.stop()
		close(w.results)
		return w, nil
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	utilflowcontrol.WatchInitialized(ctx)
	ws.running.Go(func() { w.pass(own, from) })
	return w, nil
}

// pass forwards the events of a watch to results until the watch ends.
func (w *begun) pass(ctx context.Context, from watch.Interface) {
	defer close(w.results)
	defer w.stop()
	defer from.Stop()
	for {
		select {
		case e, ok := <-from.ResultChan():
			if !ok || ctx.Err() != nil {
				return
			}
			select {
			case w.results <- inner(e):
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// inner converts an event's object to the type that the suites expect.
func inner(e watch.Event) watch.Event {
	object, err := internal(e.Object)
	if err != nil {
		status := apierrors.NewInternalError(err).Status()
		return watch.Event{Type: watch.Error, Object: &status}
	}
	return watch.Event{Type: e.Type, Object: object}
}

// ResultChan implements watch.Interface.
func (w *begun) ResultChan() <-chan watch.Event { return w.results }

// Stop implements watch.Interface.
func (w *begun) Stop() { w.stop() }

// position is a decoded continue token. It has the resourceVersion of the listed state, or -1 for
// the current state. It also has the first key that the next page may contain, without the listed
// namespace. Tokens of the watch cache also have a Maker, which kube-apiserver ignores. The suites
// create and decode kube-apiserver's tokens.
type position struct {
	Version         string `json:"v"`
	ResourceVersion int64  `json:"rv"`
	Start           string `json:"start"`
	Maker           string `json:"by,omitempty"`
}

const (
	ownMaker = "weir.dev"
	version  = "meta.k8s.io/v1"
)

func parseToken(text string) (t position, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	return t, err
}

func (t position) String() string {
	raw, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func isInconsistent(text string) bool {
	t, err := parseToken(text)
	return err == nil && t.ResourceVersion < 0
}

// ownToken converts a token of kube-apiserver to the watch cache's form. It does not check the
// content, because the watch cache must do that.
func ownToken(text string) (string, error) {
	t, err := parseToken(text)
	if err != nil || t.Version != version {
		return "", fmt.Errorf("continue token %q is not kube-apiserver's: %w", text, err)
	}
	t.Start, t.Maker = strings.TrimPrefix(t.Start, "/"), ownMaker
	return t.String(), nil
}

// pageToken converts the watch cache's token after a page to kube-apiserver's form. last is the
// last key of the page. The watch cache's token contains the next key. kube-apiserver's token
// contains the position directly after the last key.
func pageToken(text, prefix, last string) string {
	t, err := parseToken(text)
	if last = strings.TrimPrefix(last, prefix); err != nil || t.Start <= last {
		return text // the suite fails when it decodes the token
	}
	t.Start, t.Maker = last+"\x00", ""
	return t.String()
}

// withTheirToken converts the continue token in an error to kube-apiserver's form.
func withTheirToken(err error, prefix string) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Continue == "" {
		return err
	}
	t, parseErr := parseToken(status.ErrStatus.Continue)
	if parseErr != nil {
		return err
	}
	their, encodeErr := apistorage.EncodeContinue(resourcePrefix+prefix+t.Start, resourcePrefix+prefix, t.ResourceVersion)
	if encodeErr != nil {
		return errors.Join(err, encodeErr)
	}
	out := *status
	out.ErrStatus.Continue = their
	return &out
}
