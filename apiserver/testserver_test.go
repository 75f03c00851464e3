package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// testServer is a server in memory and clients for it.
type testServer struct {
	t         *testing.T
	server    *apiserver.Server
	listener  *http.Server
	transport *http.Transport
	config    *rest.Config
	typed     kubernetes.Interface
	protobuf  kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
}

// withTestServer runs f in a synctest bubble with a server, and closes the server afterwards.
func withTestServer(t *testing.T, o apiserver.Options, f func(t *testing.T, ts *testServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ts := startTestServer(t, o)
		defer ts.close()
		f(t, ts)
	})
}

func startTestServer(t *testing.T, o apiserver.Options) *testServer {
	t.Helper()
	s, err := apiserver.New(o)
	check.NoError(t, err)
	l := testenv.Listen()
	hs := &http.Server{Handler: s}
	go func() { _ = hs.Serve(l) }()
	ts := &testServer{t: t, server: s, transport: &http.Transport{DialContext: l.Dial, DisableCompression: true}}
	ts.config = &rest.Config{Host: "http://weir.test", Transport: ts.transport, QPS: -1}
	if ts.typed, err = kubernetes.NewForConfig(ts.config); err != nil {
		t.Fatal(err)
	}
	pb := rest.CopyConfig(ts.config)
	pb.ContentType, pb.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	if ts.protobuf, err = kubernetes.NewForConfig(pb); err != nil {
		t.Fatal(err)
	}
	if ts.dynamic, err = dynamic.NewForConfig(ts.config); err != nil {
		t.Fatal(err)
	}
	if ts.metadata, err = metadata.NewForConfig(ts.config); err != nil {
		t.Fatal(err)
	}
	ts.listener = hs
	return ts
}

// close closes the server, its listener and the clients' idle connections, so that all goroutines
// in the bubble end.
func (ts *testServer) close() {
	if err := ts.server.Close(); err != nil {
		ts.t.Error(err)
	}
	_ = ts.listener.Close()
	ts.transport.CloseIdleConnections()
	// Wait a second in the bubble's time, because net/http keeps a connection for up to a second if it
	// has not read the whole request body.
	time.Sleep(time.Second)
}

type answer struct {
	code   int
	header http.Header
	body   []byte
}

// send sends a request, and returns when the response headers have arrived.
func (ts *testServer) send(ctx context.Context, method, path string, body io.Reader, header []string) *http.Response {
	ts.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, ts.config.Host+path, body)
	check.NoError(ts.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := ts.transport.RoundTrip(req)
	check.NoError(ts.t, err)
	return res
}

// do sends a raw request. body may be nil or a string; any other value is sent as JSON. header
// alternates names and values.
func (ts *testServer) do(method, path string, body any, header ...string) answer {
	ts.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	case []byte:
		r = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		check.NoError(ts.t, err)
		r = bytes.NewReader(text)
	}
	res := ts.send(context.Background(), method, path, r, header)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	check.NoError(ts.t, err)
	return answer{res.StatusCode, res.Header, text}
}

// get sends a raw GET and decodes the response into v.
func (ts *testServer) get(path string, v any) answer {
	ts.t.Helper()
	a := ts.do(http.MethodGet, path, nil)
	if v != nil {
		a.decode(ts.t, v)
	}
	return a
}

func (a answer) decode(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

func (a answer) status(t *testing.T) *metav1.Status {
	t.Helper()
	var s metav1.Status
	a.decode(t, &s)
	if s.Kind != "Status" || int(s.Code) != a.code {
		t.Fatalf("answer %d is no Status of that code: %s", a.code, a.body)
	}
	return &s
}

// configMap creates a ConfigMap and returns its resourceVersion.
func (ts *testServer) configMap(name string, labels map[string]string) string {
	ts.t.Helper()
	cm, err := ts.typed.CoreV1().ConfigMaps("default").Create(context.Background(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	check.NoError(ts.t, err)
	return cm.ResourceVersion
}

// relabel replaces the labels of a ConfigMap and returns its new resourceVersion.
func (ts *testServer) relabel(name string, labels map[string]string) string {
	ts.t.Helper()
	cm, err := ts.typed.CoreV1().ConfigMaps("default").Get(context.Background(), name, metav1.GetOptions{})
	if err == nil {
		cm.Labels = labels
		cm, err = ts.typed.CoreV1().ConfigMaps("default").Update(context.Background(), cm, metav1.UpdateOptions{})
	}
	check.NoError(ts.t, err)
	return cm.ResourceVersion
}

// remove deletes a ConfigMap and returns the resourceVersion of the deletion.
func (ts *testServer) remove(name string) string {
	ts.t.Helper()
	check.NoError(ts.t, ts.typed.CoreV1().ConfigMaps("default").Delete(context.Background(), name, metav1.DeleteOptions{}))
	return strconv.FormatUint(ts.server.ResourceVersion(), 10)
}
