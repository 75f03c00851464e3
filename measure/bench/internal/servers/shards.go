package servers

import (
	"context"
	"errors"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// shardCount is the number of shards.
const shardCount = 4

var shards = Scenario{
	Name: "shards", Runs: 1, measure: measureShards,
	Short: "Received and stored bytes of four informers of a quarter of the pods each, compared with one informer of all pods",
	figures: []figures.Figure{
		figures.New("receivedShare", "one of 4 shards: bytes received ÷ all", figures.Number).AtMost(0.26),
		figures.New("heldShare", "  bytes stored ÷ all", figures.Number).AtMost(0.28),
		figures.New("receivedBytes", "  received by the largest", figures.Bytes),
		figures.New("heldBytes", "  stored by the largest", figures.Bytes),
		figures.New("allReceivedBytes", "  received by one of all", figures.Bytes),
		figures.New("allHeldBytes", "  stored by one of all", figures.Bytes),
		figures.New("cpuSeconds", "  CPU of the server for the four", figures.Seconds),
		figures.New("allCPUSeconds", "  CPU of the server for one of all", figures.Seconds),
		figures.New("unwanted", "  objects of other shards received", figures.Count).AtMost(0),
		figures.New("missing", "  objects in no shard, or in two", figures.Count).AtMost(0),
		figures.New("objects", "  objects in the largest", figures.Count),
	},
}

// measureShards runs one informer without a shard, and one for each shard, one after the other.
// Each runs until it has synced. Received bytes are counted without compression.
func measureShards(ctx context.Context, t *trial) Figures {
	var all, most informed
	unwanted, objects := 0.0, 0.0
	allCPU := t.spent(ctx, func() { all = t.inform(ctx, weir.Shard{}) })
	cpu := t.spent(ctx, func() {
		for i := range shardCount {
			one := t.inform(ctx, weir.Shard{Index: i, Count: shardCount})
			most.received, most.held, most.objects = max(most.received, one.received), max(most.held, one.held), max(most.objects, one.objects)
			unwanted += one.unwanted
			objects += one.objects
		}
	})
	return Figures{
		"receivedShare": most.received / max(1, all.received), "heldShare": most.held / max(1, all.held),
		"receivedBytes": most.received, "heldBytes": most.held, "allReceivedBytes": all.received, "allHeldBytes": all.held,
		"cpuSeconds": cpu, "allCPUSeconds": allCPU, "unwanted": unwanted,
		"missing": math.Abs(all.objects - objects), "objects": most.objects,
	}
}

// informed contains four numbers of one informer: the received bytes, the stored bytes (held), the
// received objects outside the informer's shard (unwanted), and the stored objects.
type informed struct{ received, held, unwanted, objects float64 }

// inform runs an informer of a shard until the informer has synced.
func (t *trial) inform(ctx context.Context, shard weir.Shard) (out informed) {
	inf := figures.Must(weir.NewInformer[*corev1.Pod](t.config, weir.Options{
		// With ModeList the informer does not request the current resourceVersion. A proxy would forward
		// such a request.
		Shard: shard, ListWatch: weir.ListWatch{Mode: weir.ModeList},
	}))
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	err := inf.WaitForSync(ctx)
	stats := inf.Stats()
	for _, s := range inf.Status() {
		out.unwanted += float64(s.OutOfShard)
	}
	out.received, out.held, out.objects = float64(stats.BodyBytes), float64(stats.Memory.Total()), float64(stats.Objects)
	stop()
	figures.Check(errors.Join(err, <-ended))
	return out
}
