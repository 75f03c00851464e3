package weir

import "github.com/weirproject/weir/internal/reflector"

// Server says which informers have the same API server. Set a pointer to one Server as
// Options.Server of each of them; a factory does so for its own. When one of the informers finds
// that the server was restored from a backup, all list again. They take turns to list, see
// ListWatch.MaxLists.
//
// A Server has no fields and no methods to use. The zero value is ready to use. A Server must not
// be copied. It is safe for concurrent use, and does not keep informers alive.
type Server reflector.Server
