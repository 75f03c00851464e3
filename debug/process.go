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
	Program string `json:"program"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid"`
	// Args are the arguments of the process, without values that may be secret.
	Args    []string  `json:"args"`
	Version string    `json:"version,omitempty"` // of the main module
	Weir    string    `json:"weir,omitempty"`    // version of this module
	Go      string    `json:"go"`
	Started time.Time `json:"started"` // when this package was initialized
}

// self describes this process.
var self = newProcess(os.Args)

func newProcess(args []string) process {
	p := process{PID: os.Getpid(), Args: []string{}, Go: runtime.Version(), Started: time.Now()}
	p.Host, _ = os.Hostname() // "" if unknown
	if len(args) > 0 {
		p.Program, p.Args = filepath.Base(args[0]), redacted(args[1:])
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

const hidden = "(hidden)"

var (
	// secretName matches names of flags and variables whose values may be secret.
	secretName = regexp.MustCompile(`(?i)pass|pwd|secret|token|credential|cookie|header|auth|dsn|private|key`)
	// pathName matches names of secretName whose values are the names of files.
	pathName = regexp.MustCompile(`(?i)(file|path|dir)$`)
	// secretValue matches values that contain a secret: credentials in a URL, or of an HTTP header.
	secretValue = regexp.MustCompile(`(?i)://[^/\s]*@|\b(bearer|basic)\s`)
)

// redacted returns arguments of a program without the values that may be secret.
func redacted(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		name, value, assigns := strings.Cut(arg, "=")
		secret := secretName.MatchString(name) && !pathName.MatchString(name)
		follows := i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=") &&
			secretName.MatchString(args[i-1]) && !pathName.MatchString(args[i-1])
		switch {
		case assigns && (secret || secretValue.MatchString(value)):
			out[i] = name + "=" + hidden
		case follows && !strings.HasPrefix(arg, "-"), secretValue.MatchString(arg):
			out[i] = hidden
		default:
			out[i] = arg
		}
	}
	return out
}
