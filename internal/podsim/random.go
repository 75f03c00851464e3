package podsim

import "github.com/weirproject/weir/internal/words"

// randomStream is the stream of random numbers of the templates of NewRandom, in whose pods no text
// repeats.
const randomStream uint64 = 7 << 60

// randomTemplate makes the template that pod i alone has. All its names and text are noise, except
// those of its app.
func (p *Pods) randomTemplate(i int) *template {
	w := &writer{words.Words{Rand: p.random(randomStream, i), Noise: true}}
	t := &template{app: p.app(i)}
	t.labels = map[string]string{"app": t.name, w.Word(): w.Word()}
	t.fill(w)
	return t
}
