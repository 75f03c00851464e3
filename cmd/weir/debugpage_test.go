package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestLocalOnly: a name of somebody else's that leads to this machine gets nothing.
func TestLocalOnly(t *testing.T) {
	h := localOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "127.0.0.1:8080": 200, "127.0.0.1": 200, "[::1]:8080": 200, "[::1]": 200,
		"evil.example:8080": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:80": 403, "": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/informers", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q gets %d, want %d", host, w.Code, want)
		}
	}
}
