package reflector

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// action is one thing that step makes the driver do. The last action of a step may be a request or
// a wait. If it is neither, the driver continues to read the open stream.
type action interface{ String() string }

type (
	askVersion struct{}
	openList   struct {
		rv    string
		match metav1.ResourceVersionMatch
		limit int64  // 0 means no limit
		page  string // the continue token, or "" for the first page
	}
	// askNewest sends a LIST only to learn the server's newest resourceVersion. If reaches is not "",
	// the server must have reached that version.
	askNewest struct{ reaches string }
	openWatch struct {
		rv      string
		initial bool          // request initial events, of a state not older than rv
		timeout time.Duration // after which the server should end the watch
		// Until the bookmark that ends the initial events arrives, deadline limits the time that passes
		// without an initial event. When the deadline passes, the watch fails with ErrNoBookmark. 0 means
		// no deadline.
		deadline time.Duration
		// probe is how long the watch may send no event and no bookmark before a probe requests the
		// newest resourceVersion. 0 means no probe.
		probe time.Duration
		// The watches directly before this one sent nothing. unheard is their total time.
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

// options returns the parameters of the request: query, with the parameters of the action.
func (a openList) options(query metav1.ListOptions) metav1.ListOptions {
	query.ResourceVersion, query.ResourceVersionMatch, query.Limit, query.Continue = a.rv, a.match, a.limit, a.page
	return query
}

func (a askNewest) options(query metav1.ListOptions) metav1.ListOptions {
	if query.ResourceVersion = a.reaches; a.reaches != "" {
		query.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	return query
}

func (a openWatch) options(query metav1.ListOptions) metav1.ListOptions {
	query.ResourceVersion, query.AllowWatchBookmarks = a.rv, true
	query.TimeoutSeconds = new(int64((a.timeout + time.Second - 1) / time.Second))
	if a.initial {
		query.SendInitialEvents, query.ResourceVersionMatch = &a.initial, metav1.ResourceVersionMatchNotOlderThan
	}
	return query
}

func (a openList) String() string {
	s := "LIST" + parameters(a.options(metav1.ListOptions{}))
	if a.limit > 0 {
		s += fmt.Sprintf(" limit=%d", a.limit)
	}
	if a.page != "" {
		s += " continue=" + a.page
	}
	return s
}

func (a askNewest) String() string {
	return "LIST" + parameters(a.options(metav1.ListOptions{})) + " limit=1, for its resourceVersion only"
}

func (a openWatch) String() string {
	var b strings.Builder
	b.WriteString("WATCH" + parameters(a.options(metav1.ListOptions{})))
	if a.initial {
		b.WriteString(" sendInitialEvents")
	}
	fmt.Fprintf(&b, " allowWatchBookmarks timeout=%v", a.timeout)
	if a.deadline > 0 {
		fmt.Fprintf(&b, ", at most silent for %v", a.deadline)
	}
	if a.probe > 0 && a.probe != bookmarkPeriod {
		fmt.Fprintf(&b, ", probe after %v", a.probe)
	}
	return b.String()
}

func parameters(o metav1.ListOptions) string {
	s := " resourceVersion=" + strconv.Quote(o.ResourceVersion)
	if match := o.ResourceVersionMatch; match != "" {
		s += " match=" + string(match)
	}
	return s
}

func (a wait) String() string       { return "wait " + a.d.String() }
func (closeStream) String() string  { return "close the stream" }
func (abortReplace) String() string { return "abort replace: keep received and stored objects" }
func (a endReplace) String() string {
	return fmt.Sprintf("end replace at %q: remove objects that were not received", a.rv)
}
func (a progress) String() string { return "progress to " + a.rv }

func (a beginReplace) String() string {
	text := "begin replace"
	if a.rebase {
		text += ", accepting older versions"
	}
	if a.restored {
		text += ", and notify the server's other reflectors"
	}
	return text
}
