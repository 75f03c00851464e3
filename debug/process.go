package debug

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// process describes the process that serves the page.
type process struct {
	Program string    `json:"program"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid"`
	Flags   []string  `json:"flags"`             // names, see flagNames
	Version string    `json:"version,omitempty"` // of the main module
	Weir    string    `json:"weir,omitempty"`    // version of this module
	Go      string    `json:"go"`
	Started time.Time `json:"started"` // when this package was initialized
}

// self describes this process.
var self = newProcess(os.Args)

func newProcess(args []string) process {
	p := process{PID: os.Getpid(), Flags: []string{}, Go: runtime.Version(), Started: time.Now()}
	p.Host, _ = os.Hostname() // "" if unknown
	if len(args) > 0 {
		p.Program, p.Flags = filepath.Base(args[0]), flagNames(args[1:])
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return p
	}
	p.Version = info.Main.Version
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/weirproject/weir" {
			p.Weir = m.Version
		}
	}
	return p
}

var flagName = regexp.MustCompile(`^(--[a-zA-Z][\w.-]*|-[a-zA-Z])(=|$)`)

// flagNames returns the names of a program's flags. It returns no values, because any value may be
// a secret. So it omits an argument that may be a value: one that follows a flag without "=", even
// if it starts with a dash; a short flag of several letters, as in -psecret; and all after "--".
func flagNames(args []string) []string {
	names, mayBeValue := []string{}, false
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if name := flagName.FindStringSubmatch(arg); name != nil && !mayBeValue {
			names = append(names, name[1])
		}
		mayBeValue = strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=")
	}
	return names
}
