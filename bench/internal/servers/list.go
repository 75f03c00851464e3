package servers

import (
	"context"
	"time"

	"github.com/weirproject/weir/bench/internal/figures"
)

var list = Scenario{
	Name: "list", Runs: 3, measure: measureList,
	Short: "Full LIST of \"0\" in protobuf, as it is and gzipped",
	figures: []boundedFigure{
		{figures.New("cpuSeconds", "full protobuf LIST: CPU", figures.Seconds), ratio(0.35)},
		{figures.New("seconds", "  time", figures.Seconds), anything},
		{figures.New("wireBytes", "  size", figures.Bytes), anything},
		{figures.New("gzipCPUSeconds", "full protobuf LIST, gzipped: CPU", figures.Seconds), ratio(0.6)},
		{figures.New("gzipSeconds", "  time", figures.Seconds), anything},
		{figures.New("gzipWireBytes", "  size", figures.Bytes), anything},
	},
}

// fullLists is how many full answers one run takes the mean of.
const fullLists = 3

func measureList(ctx context.Context, t *trial) (Figures, error) {
	c, err := t.client()
	if err != nil {
		return nil, err
	}
	defer c.close()
	f := Figures{}
	for _, answer := range []struct {
		gzip               bool
		cpu, seconds, size string
	}{
		{false, "cpuSeconds", "seconds", "wireBytes"},
		{true, "gzipCPUSeconds", "gzipSeconds", "gzipWireBytes"},
	} {
		begin := time.Now()
		var size int64
		cpu, err := t.spent(ctx, func() error {
			for range fullLists {
				if size, err = c.discard(ctx, request{path: podsPath, query: "resourceVersion=0", gzip: answer.gzip}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		f[answer.cpu], f[answer.seconds], f[answer.size] = cpu/fullLists, time.Since(begin).Seconds()/fullLists, float64(size)
	}
	return f, nil
}
