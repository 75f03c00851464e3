package cluster

import "context"

// Program is a client of an API server that runs as a child of this process, and dies with it (on
// Linux).
type Program struct{ process *process }

// StartProgram starts the program at path, with env added to this process's environment, and
// appends what it prints to logPath. The caller must call Stop.
func StartProgram(path string, args, env []string, logPath string) (*Program, error) {
	p, err := startProcess(path, args, env, logPath)
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Err returns an error that says why the program does not run any more, with the last lines of its
// log, or nil while it runs. It is safe for concurrent use.
func (p *Program) Err() error {
	select {
	case <-p.process.exited:
		return p.process.failure()
	default:
		return nil
	}
}

// PID returns the id of the program's process.
func (p *Program) PID() int { return p.process.pid }

// LastLines returns the last lines of what the program has printed.
func (p *Program) LastLines() string { return p.process.lastLines() }

// Terminate asks the program to end, and waits until it has. The error says how it ended if that
// was not in good order. If the context ends first, the error is the context's, and the program may
// go on.
func (p *Program) Terminate(ctx context.Context) error { return p.process.terminate(ctx) }

// Stop kills the program and waits until it is gone.
func (p *Program) Stop() { p.process.kill() }
