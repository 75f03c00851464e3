package clientgo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/wire"
)

// headBytes is how much of a captured LIST is looked at for its kind. kube-apiserver sends that first.
const headBytes = 512

// plant makes the answer that the caller gets in place of the captured one: an empty list of the same kind, or a watch
// that has ended. It is JSON whatever the caller asked for, since every client reads that. It takes the head of the
// captured body and puts it back.
func (c *capture) plant(req *http.Request, resp *http.Response) (*http.Response, error) {
	planted := *resp
	planted.Request = req
	planted.Header = resp.Header.Clone()
	planted.Header.Del("Content-Encoding")
	planted.Header.Del("Content-Length")
	planted.Header.Set("Content-Type", wire.ContentTypeJSON)
	planted.Uncompressed = false
	body := []byte{}
	if c.verb == list {
		kind, err := listKind(resp)
		if err != nil {
			return nil, err
		}
		if body, err = json.Marshal(emptyList{kind, metav1.ListMeta{}, []string{}}); err != nil {
			return nil, err
		}
	}
	planted.ContentLength = int64(len(body))
	planted.Body = io.NopCloser(bytes.NewReader(body))
	return &planted, nil
}

type emptyList struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ListMeta `json:"metadata"`
	Items           []string        `json:"items"`
}

// listKind reads the kind at the head of the answer's body. The body is decompressed from then on.
func listKind(resp *http.Response) (metav1.TypeMeta, error) {
	body := resp.Body
	plain, err := wire.NewBody(body, resp.Header.Get("Content-Encoding"))
	if err != nil {
		return metav1.TypeMeta{}, err
	}
	buffered := bufio.NewReaderSize(plain, headBytes)
	head, err := buffered.Peek(headBytes)
	if err != nil && err != io.EOF {
		return metav1.TypeMeta{}, err
	}
	resp.Header.Del("Content-Encoding")
	resp.Body = readCloser{buffered, body}
	enc, err := wire.EncodingOf(resp.Header.Get("Content-Type"))
	if err != nil {
		return metav1.TypeMeta{}, err
	}
	reader := wire.NewListReader(bytes.NewReader(head), enc, wire.Limits{})
	for err == nil && reader.TypeMeta().Kind == "" {
		_, err = reader.Next() // the head ends somewhere: its kind is what counts
	}
	kind := reader.TypeMeta()
	if kind.Kind == "" || kind.APIVersion == "" {
		// An older server's list of custom resources says its kind behind the items. An unstructured client takes any.
		return metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, nil
	}
	return metav1.TypeMeta{APIVersion: kind.APIVersion, Kind: kind.Kind}, nil
}

// readCloser reads from one and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// ownedBody is a body whose request ends with it.
type ownedBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *ownedBody) Close() error {
	b.cancel(net.ErrClosed)
	return b.ReadCloser.Close()
}
