package conn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// recorder is a connection that records each write.
type recorder struct {
	net.Conn
	writes []string
	err    error
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	r.writes = append(r.writes, string(p))
	return len(p), nil
}

// requestOf returns a request on connection c with the given major version of HTTP.
func requestOf(c *Conn, major int) *http.Request {
	return (&http.Request{ProtoMajor: major}).WithContext(context.WithValue(context.Background(), connKey{}, c))
}

// TestWriteBuffer writes to a connection while handlers write answers, and checks which writes
// reach the connection.
func TestWriteBuffer(t *testing.T) {
	large := string(bytes.Repeat([]byte("l"), writeBufferBytes+1))
	half := string(bytes.Repeat([]byte("h"), writeBufferBytes/2))
	for name, tc := range map[string]struct {
		// steps are texts to write, and three commands: "+" starts an answer, "-" ends the oldest answer,
		// and "wait" sleeps for longer than the buffer may wait.
		steps []string
		want  []string
	}{
		"no answer":           {[]string{"a", "b"}, []string{"a", "b"}},
		"with what follows":   {[]string{"+", "a", "b", "-", "c", "d"}, []string{"abc", "d"}},
		"nothing follows":     {[]string{"+", "a", "b", "-", "wait", "c"}, []string{"ab", "c"}},
		"nothing waits":       {[]string{"+", "-", "a"}, []string{"a"}},
		"two answers":         {[]string{"+", "a", "+", "b", "-", "c", "-", "d"}, []string{"abcd"}},
		"one that takes long": {[]string{"+", "a", "wait", "b", "c", "wait", "-", "d"}, []string{"a", "bc", "d"}},
		"more than waits":     {[]string{"+", "a", half, half, "b", "-", "c"}, []string{"a" + half, half + "bc"}},
		"all that may wait":   {[]string{"+", half, half, "b", "-", "c"}, []string{half + half, "bc"}},
		"too large":           {[]string{"+", "a", large, "b", "-", "c"}, []string{"a", large, "bc"}},
		"again":               {[]string{"+", "a", "-", "b", "+", "c", "-", "d"}, []string{"ab", "cd"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &recorder{}
				c := &Conn{buffer: writeBuffer{conn: conn}}
				wb := &c.buffer
				r := requestOf(c, 2)
				var release []func()
				for _, step := range tc.steps {
					switch step {
					case "+":
						release = append(release, BufferWrites(r))
					case "-":
						release[0]()
						release = release[1:]
					case "wait":
						time.Sleep(2 * writeBufferDelay)
						synctest.Wait()
					default:
						if n, err := wb.Write([]byte(step)); n != len(step) || err != nil {
							t.Fatal(n, err)
						}
					}
				}
				if got := fmt.Sprintf("%.20q", conn.writes); got != fmt.Sprintf("%.20q", tc.want) {
					t.Errorf("%s, want %.20q", got, tc.want)
				}
				for i := range conn.writes {
					if conn.writes[i] != tc.want[i] {
						t.Errorf("write %d is of %d bytes, want %d", i, len(conn.writes[i]), len(tc.want[i]))
					}
				}
			})
		})
	}
}

// TestWriteBufferFails checks that the next Write returns the error of a delayed flush.
func TestWriteBufferFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &recorder{err: net.ErrClosed}
		wb := &writeBuffer{conn: conn}
		wb.answers.Add(1)
		if _, err := wb.Write([]byte("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * writeBufferDelay)
		synctest.Wait()
		if _, err := wb.Write([]byte("b")); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestWriteBufferOnlyHTTP2 checks that BufferWrites does not buffer the writes of HTTP/1.
func TestWriteBufferOnlyHTTP2(t *testing.T) {
	c := &Conn{}
	BufferWrites(requestOf(c, 1))
	BufferWrites(&http.Request{ProtoMajor: 2})
	check.Equal(t, c.buffer.answers.Load(), 0, "the writes of HTTP/1 wait")
}
