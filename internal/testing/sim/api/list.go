package api

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// freshness is how long a server waits until its cache has reached a requested revision.
const freshness = 3 * time.Second

// moment says which state a LIST requests.
type moment struct {
	rev   int64 // the revision that the state must have reached
	exact bool  // the state must be at exactly rev
	any   bool  // the cache's state suffices, even if its revision is old
	etcd  bool  // if the cache does not reach rev in time, etcd serves the LIST
	limit int
	from  Key // the first key that the page may contain
}

// moment returns the state that a LIST requests. It follows the table of parameters in the contract
// of LIST.
func (s *Server) moment(r *request) (moment, *failure) {
	m := moment{limit: r.limit}
	if r.token != "" {
		return s.continued(r, m)
	}
	if r.match != "" && r.rv == "" || r.match == string(metav1.ResourceVersionMatchExact) && r.rv == "0" {
		return m, invalid("resourceVersionMatch is forbidden unless resourceVersion is provided")
	}
	switch {
	case r.rv == "":
		m.rev, m.etcd, m.any = s.era.Head(), true, s.Stale
		return m, nil
	case r.rv == "0":
		m.any = true
		if r.match == "" {
			m.limit = 0
		}
		return m, nil
	}
	rev, ok := s.era.Parse(r.rv)
	if !ok {
		return m, badRequest("Invalid value: " + r.rv)
	}
	m.rev = rev
	m.exact = r.match == string(metav1.ResourceVersionMatchExact) || r.match == "" && r.limit > 0
	return m, nil
}

func (s *Server) continued(r *request, m moment) (moment, *failure) {
	if r.rv != "" && r.rv != "0" {
		return m, badRequest("specifying resource version is not allowed when using continue")
	}
	if r.match != "" {
		return m, invalid("resourceVersionMatch is forbidden when continue is provided")
	}
	b, err := base64.RawURLEncoding.DecodeString(r.token)
	var era int
	var ns, name string
	if err == nil {
		_, err = fmt.Sscanf(string(b), "%d %d %s %s", &era, &m.rev, &ns, &name)
	}
	if err != nil {
		return m, badRequest("continue key is not valid")
	}
	m.from, m.exact = Key{Namespace: ns, Name: name}, true
	if m.rev < 0 {
		m.rev, m.exact = s.era.Head(), false
		return m, nil
	}
	if era != s.era.Index || m.rev < s.era.Compacted() {
		f := expired("The provided continue parameter is too old to display a consistent list result.")
		f.Continue = token(s.era.Index, -1, m.from)
		return m, f
	}
	return m, nil
}

func token(era int, rev int64, from Key) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %s %s", era, rev, from.Namespace, from.Name))
}

// listed is a server's response to a LIST.
type listed struct {
	body        []byte
	last        bool // no further page follows
	era, schema int
	rev         int64
}

// list returns the response to a LIST. If the cache has not reached the required revision and
// mayWait is true, the response is empty and wait is true.
func (s *Server) list(r *request, m moment, mayWait bool) (l listed, f *failure, wait bool) {
	s.advance()
	rev := s.seen
	if !m.any && s.seen < m.rev {
		switch {
		case mayWait:
			return l, nil, true
		case (m.etcd || m.exact) && m.rev <= s.era.Head():
			// Head may be lower than before: the server may have been restored since the request arrived.
			rev = m.rev
		default:
			return l, tooLarge(), false
		}
	}
	if m.exact {
		rev = m.rev
		if rev < s.era.Compacted() {
			return l, expired("The resourceVersion for the provided list is too old."), false
		}
	}
	var items []*Version
	next := ""
	remaining := 0
	for _, v := range s.era.At(rev) {
		switch {
		case v.Key.Less(m.from) || !r.matches(v):
		case m.limit > 0 && len(items) == m.limit:
			if remaining++; next == "" {
				next = token(s.era.Index, rev, v.Key)
			}
		default:
			items = append(items, v)
		}
	}
	if !r.labels.Empty() || !r.fields.Empty() {
		remaining = 0
	}
	s.cluster.logf("%v: %d of %d items at %s", s, len(items), len(s.era.At(rev)), s.era.Format(rev))
	l = listed{body: s.listBody(r, items, s.era.Format(rev), next, remaining), era: s.era.Index, schema: s.cluster.schema, rev: rev}
	t := s.cluster.view(r)
	if r.ask == AskMore {
		l.schema = t.paging
	} else {
		t.paging = l.schema
	}
	l.last = next == "" && r.ask != AskProbe
	return l, nil, false
}

func (s *Server) listBody(r *request, items []*Version, rv, next string, remaining int) []byte {
	c := s.cluster
	enc := encoding{Representation: Representation{Schema: c.schema}, order: s.Order, protobuf: r.protobuf, untyped: c.Kind.Protobuf && !r.partial, partial: r.partial}
	apiVersion, kind := c.Kind.names(r.partial)
	if r.protobuf {
		return c.protobufList(enc, items, rv, next, remaining)
	}
	objects := make([][]byte, len(items))
	for i, v := range items {
		enc.Version = v
		objects[i] = c.object(enc)
	}
	meta := fmt.Sprintf(`"resourceVersion":"%s"}`, rv)
	if remaining > 0 {
		meta = fmt.Sprintf(`"remainingItemCount":%d,`, remaining) + meta
	}
	if next != "" {
		meta = fmt.Sprintf(`"continue":"%s",`, next) + meta
	}
	fields := []string{`"apiVersion":"` + apiVersion + `"`, `"items":[` + string(bytes.Join(objects, []byte{','})) + `]`, `"kind":"` + kind + `List"`, `"metadata":{` + meta}
	if c.Kind.Protobuf { // servers encode built-in kinds from Go structs, whose fields have this order
		fields[0], fields[1], fields[2], fields[3] = fields[2], fields[0], fields[3], fields[1]
	}
	return []byte(object(permute(fields, s.Order)))
}

func (c *Cluster) protobufList(enc encoding, items []*Version, rv, next string, remaining int) []byte {
	lm := metav1.ListMeta{ResourceVersion: rv, Continue: next}
	if remaining > 0 {
		lm.RemainingItemCount = new(int64(remaining))
	}
	b := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), marshal(&lm))
	for _, v := range items {
		enc.Version = v
		b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), c.object(enc))
	}
	apiVersion, kind := c.Kind.names(enc.partial)
	return envelope(apiVersion, kind+"List", b)
}
