package podsim

import "github.com/weirproject/weir/internal/words"

// randomStream is that of the pods of which nothing repeats.
const randomStream uint64 = 7 << 60

// randomTemplate is that of pod i alone, all of whose names and text are noise.
func (p *Pods) randomTemplate(i int) *template {
	w := &writer{words.Words{Rand: p.random(randomStream, i), Noise: true}}
	t := &template{app: p.app(i)}
	t.labels = map[string]string{"app": t.name, w.Word(): w.Word()}
	t.fill(w)
	return t
}
