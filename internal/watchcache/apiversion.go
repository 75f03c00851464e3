package watchcache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

var errNoObject = errors.New("watchcache: stored JSON is no object")

// appendAPIVersion appends a JSON object with its apiVersion replaced, or as it is if it has none.
func appendAPIVersion(dst, object []byte, apiVersion string) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	t, err := d.ReadToken()
	if err != nil {
		return dst, fmt.Errorf("watchcache: stored JSON: %w", err)
	}
	if t.Kind() != '{' {
		return dst, errNoObject
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return dst, fmt.Errorf("watchcache: stored JSON: %w", err)
		}
		wanted := name.String() == "apiVersion"
		value, err := d.ReadValue()
		if err != nil {
			return dst, fmt.Errorf("watchcache: stored JSON: %w", err)
		}
		if !wanted {
			continue
		}
		end := d.InputOffset()
		quoted, err := json.Marshal(apiVersion)
		if err != nil {
			return dst, err
		}
		dst = append(dst, object[:end-int64(len(value))]...)
		dst = append(dst, quoted...)
		return append(dst, object[end:]...), nil
	}
	if _, err := d.ReadToken(); err != nil && !errors.Is(err, io.EOF) {
		return dst, fmt.Errorf("watchcache: stored JSON: %w", err)
	}
	return append(dst, object...), nil
}
