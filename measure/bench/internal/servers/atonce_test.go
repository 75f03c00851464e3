package servers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/measure/bench/internal/attempt"
)

// atOnce has clients ask, each in a way of its own, and says what came of it.
func atOnce(t *testing.T, patience time.Duration, clients int, ask func(ctx context.Context, i int) error) (Figures, string, error) {
	t.Helper()
	var said strings.Builder
	tr := &trial{
		target:  &target{name: nameAPIServer, config: &rest.Config{Host: "http://127.0.0.1:1"}},
		Options: Options{Patience: patience, Progress: &said},
	}
	var f Figures
	err := attempt.Do(func() {
		f = tr.allAtOnce(t.Context(), clients, func(ctx context.Context, _ *client, i int) error { return ask(ctx, i) })
	})
	return f, said.String(), err
}

var errBusy = errors.New("busy")

func TestAllAtOnceTryAgain(t *testing.T) {
	var once [3]sync.Once
	f, said, err := atOnce(t, time.Hour, len(once), func(_ context.Context, i int) (err error) {
		once[i].Do(func() { err = errBusy })
		return err
	})
	if _, ok := f["upSeconds"]; !ok || err != nil || f["up"] != 3 || f["failed"] != 3 || said != "" {
		t.Errorf("%v, %q, %v", f, said, err)
	}
}

func TestPatienceAtAnEnd(t *testing.T) {
	never := func(ctx context.Context, i int) error {
		if i == 0 {
			return nil
		}
		<-ctx.Done()
		return errBusy
	}
	f, said, err := atOnce(t, 50*time.Millisecond, 3, never)
	if _, ok := f["upSeconds"]; ok || err != nil || f["up"] != 1 || !strings.Contains(said, "2 of 3 clients have got nothing") || !strings.Contains(said, "busy") {
		t.Errorf("%v, %q, %v", f, said, err)
	}
	if _, _, err := atOnce(t, 50*time.Millisecond, 2, func(ctx context.Context, _ int) error { return never(ctx, 1) }); !errors.Is(err, errBusy) {
		t.Errorf("no client got anything: %v", err)
	}
}
