package source

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
)

// fill sets every field reachable from v to a non-zero value. Functions and interfaces remain nil,
// because CopyConfig does not copy them deeply.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float32:
		v.SetFloat(1)
	}
}

// shared returns the path of a slice, map or pointer that is the same in a and b, or "".
func shared(a, b reflect.Value, path string) string {
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if a.IsNil() {
			return ""
		}
		if a.Pointer() == b.Pointer() {
			return path
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		return shared(a.Elem(), b.Elem(), path)
	case reflect.Struct:
		for i := range a.NumField() {
			if found := shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name); found != "" {
				return found
			}
		}
	case reflect.Slice:
		for i := range a.Len() {
			if found := shared(a.Index(i), b.Index(i), path+"[]"); found != "" {
				return found
			}
		}
	case reflect.Map:
		for _, key := range a.MapKeys() {
			if found := shared(a.MapIndex(key), b.MapIndex(key), path+"[]"); found != "" {
				return found
			}
		}
	}
	return ""
}

// TestCopyConfig checks that a config and its copy share no slice, map or pointer. fill uses
// reflection, so the test also covers fields that client-go may add.
func TestCopyConfig(t *testing.T) {
	cfg := &rest.Config{}
	fill(reflect.ValueOf(cfg).Elem())
	plugin := &runtime.Unknown{Raw: []byte("x")}
	cfg.ExecProvider.Config = plugin
	copied := CopyConfig(cfg)
	if !reflect.DeepEqual(copied, cfg) {
		t.Errorf("the copy differs: %v", copied)
	}
	if cfg.ExecProvider.Config != plugin {
		t.Error("the config was changed")
	}
	if copied.ExecProvider.Config == cfg.ExecProvider.Config {
		t.Error("the plugin's configuration is shared")
	}
	check.Equal(t, shared(reflect.ValueOf(cfg), reflect.ValueOf(copied), "Config"), "", "is shared")
	if empty := (&rest.Config{}); !reflect.DeepEqual(CopyConfig(empty), empty) {
		t.Errorf("a copy of the empty config: %v", CopyConfig(empty))
	}
}
