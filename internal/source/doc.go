// Package source opens LIST and WATCH streams of one resource.
//
// A [Source] answers with bodies that are cut up while they arrive (package wire): nothing here
// ever holds a whole LIST. [REST] is the source of a rest.Config. Another one can be built from any
// HTTP answer with [NewList] and [NewWatch], from any reader with [ReadList] and [ReadWatch], and
// asks for the same media types with
// [Resource.Accept]: that is how a client's own ListerWatcher is read when its transport is wrapped.
//
// # What a request carries
//
// The encoding is negotiated: protobuf with a JSON fall-back, or JSON alone, whole objects or their
// metadata. The Content-Type of the answer, not the question, decides how a body is read. gzip is
// asked for explicitly where the body is long (LIST, and WATCH with initial events), because
// net/http's own decompression neither counts bytes nor reads a member that is flushed before the
// stream ends.
//
// # Bounds
//
// No queue, no goroutine: a stream is read by whoever calls Next, and its memory is one read buffer
// and one object. Every stream has an end of its own: a LIST without a byte for
// [Options.IdleTimeout] fails with [ErrStalled], a WATCH ends 30 s after the time that the server
// was asked to end it, and an answer must begin within [Options.HeaderTimeout]. The timers and the
// request belong to the stream: Close, or the end of the context given to List or Watch, ends them.
package source
