package weir

import "github.com/weirproject/weir/internal/reflector"

// Server is what informers of one API server share: each lists again when another one finds that
// the server was restored from a backup, and they take turns to list (ListWatch.MaxLists). The zero
// value is ready to use. It must not be copied. It is safe for concurrent use, and does not keep
// informers alive.
type Server reflector.Server
