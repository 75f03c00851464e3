package cluster

import "context"

// Program is a client program of an API server. It runs as a child process of this process. On
// Linux, it dies with this process.
type Program struct{ process *process }

// StartProgram starts the program at path. It adds env to this process's environment, and appends
// the program's output to the file at logPath. The caller must call Stop.
func StartProgram(path string, args, env []string, logPath string) (*Program, error) {
	p, err := startProcess(path, args, env, logPath)
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Err returns nil while the program runs. After the program has exited, Err returns an error with
// the reason and the last lines of the log. Err is safe for concurrent use.
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

// LastLines returns the last lines of the program's output. If the output cannot be read, it
// returns the error's text.
func (p *Program) LastLines() string { return p.process.lastLines() }

// Terminate sends SIGTERM to the program and waits until it has exited. It returns an error if the
// program exited with an error. If ctx ends first, Terminate returns the error of ctx, and the
// program may continue to run.
func (p *Program) Terminate(ctx context.Context) error { return p.process.terminate(ctx) }

// Stop kills the program and waits until it has exited.
func (p *Program) Stop() { p.process.kill() }
