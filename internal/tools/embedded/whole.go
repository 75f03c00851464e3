package embedded

import (
	"bytes"
	"net/http"

	"github.com/weirproject/weir/internal/core/request"
)

// whole builds each answer, except those of watches, in memory before it sends it, as
// kube-apiserver did before it encoded lists item by item.
type whole struct{ objects http.Handler }

func (h whole) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if request.QueryOf(r.URL).Flag("watch") {
		h.objects.ServeHTTP(w, r)
		return
	}
	body := &heldBody{ResponseWriter: w, code: http.StatusOK}
	h.objects.ServeHTTP(body, r)
	w.WriteHeader(body.code)
	for _, piece := range body.pieces {
		if _, err := w.Write(piece); err != nil {
			return // the client has disconnected
		}
	}
}

// heldBody buffers the written bytes. Its pieces have exactly the size of the body.
type heldBody struct {
	http.ResponseWriter
	code   int
	pieces [][]byte
}

func (b *heldBody) WriteHeader(code int) { b.code = code }

func (b *heldBody) Write(p []byte) (int, error) {
	b.pieces = append(b.pieces, bytes.Clone(p))
	return len(p), nil
}
