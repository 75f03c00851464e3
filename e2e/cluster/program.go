package cluster

import "context"

// Program is a client of an API server. It runs as a child of this process, and dies with it (on
// Linux).
type Program struct{ process *process }

// StartProgram starts the program at path, with env added to this process's environment, and
// appends its output to logPath. The caller must call Stop.
func StartProgram(path string, args, env []string, logPath string) (*Program, error) {
	p, err := startProcess(path, args, env, logPath)
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Err returns nil while the program runs. Otherwise, it returns an error with the reason of the
// exit and the last lines of the log. It is safe for concurrent use.
func (p *Program) Err() error {
	select {
	case <-p.process.exited:
		return p.process.failure()
	default:
		return nil
	}
}

// PID returns the program's process ID.
func (p *Program) PID() int { return p.process.pid }

// LastLines returns the last lines of the program's output.
func (p *Program) LastLines() string { return p.process.lastLines() }

// Terminate sends SIGTERM to the program and waits until it has exited. It returns an error if the
// program exited with an error. If ctx ends first, Terminate returns the error of ctx, and the
// program may continue to run.
func (p *Program) Terminate(ctx context.Context) error { return p.process.terminate(ctx) }

// Stop kills the program and waits until it has exited.
func (p *Program) Stop() { p.process.kill() }
