package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// log parses the descheduler's log messages. They say which pods the descheduler evicts, and when a
// run has ended.
type log struct {
	mu            sync.Mutex
	now, complete map[string]any // evicted pods of the current run, and of the last completed run
}

// These are messages of the descheduler at verbosity 1.
const (
	evicted = "Evicted pod"
	ran     = "Number of evictions/requests"
)

func (l *log) logger() logr.Logger {
	return funcr.NewJSON(l.line, funcr.Options{Verbosity: 1})
}

func (l *log) line(line string) {
	var said struct {
		Msg, Reason, Strategy, Node string
		Pod                         struct{ Name, Namespace string }
		Error                       any
	}
	if err := json.Unmarshal([]byte(line), &said); err != nil || said.Error != nil {
		fmt.Fprintln(os.Stderr, line)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch said.Msg {
	case evicted:
		if l.now == nil {
			l.now = map[string]any{}
		}
		l.now[said.Pod.Namespace+"/"+said.Pod.Name] = map[string]string{"reason": said.Reason, "strategy": said.Strategy, "node": said.Node}
	case ran:
		l.complete, l.now = l.now, nil
	}
}

// last returns the pods that the last completed run evicted, or nil if no run has completed. The
// map does not change any more.
func (l *log) last() map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.complete
}
