package reflector

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/source"
)

// action is one thing that step makes the driver do. The last action of a step may be a request or
// a wait. If it is neither, the driver continues to read the open stream.
type action interface{ String() string }

type (
	askVersion struct{}
	openList   struct{ source.ListOptions }
	// askNewest sends a LIST only to learn the server's newest resourceVersion. The server must have
	// reached the version reaches, if that is not "".
	askNewest struct{ reaches string }
	openWatch struct {
		source.WatchOptions
		// deadline is how long the watch may send no initial event, until the bookmark that ends the
		// initial events. After that the watch fails with ErrNoBookmark. 0 means no deadline.
		deadline time.Duration
		// probe is how long the watch may send no event and no bookmark before a probe requests the
		// newest resourceVersion. 0 means no probe.
		probe time.Duration
		// unheard is the total time in which the watches in a row before this one sent nothing.
		unheard time.Duration
	}
	wait         struct{ d time.Duration }
	closeStream  struct{}
	beginReplace struct {
		rebase bool
		// the server went back in time: the other reflectors of the server must list as well
		restored bool
	}
	endReplace   struct{ rv string }
	abortReplace struct{}
	progress     struct{ rv string }
)

func (askVersion) String() string { return "GET /version" }

func (a openList) String() string {
	return "LIST" + parameters(a.ResourceVersion, a.Match) + listParameters(a.ListOptions)
}

func (a askNewest) String() string {
	match := metav1.ResourceVersionMatch("")
	if a.reaches != "" {
		match = metav1.ResourceVersionMatchNotOlderThan
	}
	return "LIST" + parameters(a.reaches, match) + " limit=1, only its resourceVersion"
}

func (a openWatch) String() string {
	var b strings.Builder
	b.WriteString("WATCH" + parameters(a.ResourceVersion, a.Match))
	if a.SendInitialEvents {
		b.WriteString(" sendInitialEvents")
	}
	if a.AllowBookmarks {
		b.WriteString(" allowWatchBookmarks")
	}
	fmt.Fprintf(&b, " timeout=%v", a.Timeout)
	if a.deadline > 0 {
		fmt.Fprintf(&b, ", silent for no more than %v", a.deadline)
	}
	if a.probe > 0 && a.probe != bookmarkPeriod {
		fmt.Fprintf(&b, ", probe after %v", a.probe)
	}
	return b.String()
}

func parameters(rv string, match metav1.ResourceVersionMatch) string {
	s := " resourceVersion=" + strconv.Quote(rv)
	if match != "" {
		s += " match=" + string(match)
	}
	return s
}

func listParameters(o source.ListOptions) string {
	s := ""
	if o.Limit > 0 {
		s += fmt.Sprintf(" limit=%d", o.Limit)
	}
	if o.Continue != "" {
		s += " continue=" + o.Continue
	}
	return s
}

func (a wait) String() string       { return "wait " + a.d.String() }
func (closeStream) String() string  { return "close the stream" }
func (abortReplace) String() string { return "abort replace: keep what came and what was there" }
func (a endReplace) String() string {
	return fmt.Sprintf("end replace at %q: remove what did not come", a.rv)
}
func (a progress) String() string { return "progress to " + a.rv }

func (a beginReplace) String() string {
	text := "begin replace"
	if a.rebase {
		text += ", taking older versions too"
	}
	if a.restored {
		text += ", and tell the server's other reflectors"
	}
	return text
}
