package main

import (
	"context"
	"io"

	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
)

// embeddedServer is a running embedded API server. It is a separate program, because most commands
// do not need it, and it links the Go types of all built-in kinds.
type embeddedServer struct {
	*process.Server
	remove func() // removes the program that was built for it
}

// startEmbedded starts an embedded API server, which ends with Close, with ctx or with this
// process. If its program must be built first, it writes that to log.
func startEmbedded(
	ctx context.Context, log io.Writer, spec process.ServerSpec,
) (*embeddedServer, error) {
	file, remove, err := command.Serve.Find(ctx, log)
	if err != nil {
		return nil, err
	}
	server, err := process.StartServerProgram(ctx, file, spec)
	if err != nil {
		remove()
		return nil, err
	}
	return &embeddedServer{server, remove}, nil
}

// Close ends the server and waits for its end.
func (e *embeddedServer) Close() error {
	defer e.remove()
	return e.Server.Close()
}
