package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The models in this file compute what a reader must return. They do not use this package's
// parsers.

var (
	errModel     = errors.New("the model refuses it")
	errModelItem = errors.New("an item is refused")
)

type jsonMember struct {
	name  string
	value json.RawMessage
}

// modelMembers splits an object into its members with encoding/json.
func modelMembers(text []byte) ([]jsonMember, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errModel
	}
	var members []jsonMember
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := jsonMember{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

// modelUnique returns the values of the named members. It returns an error if one of them occurs
// twice.
func modelUnique(members []jsonMember, names ...string) (map[string]json.RawMessage, error) {
	found := map[string]json.RawMessage{}
	for _, m := range members {
		for _, name := range names {
			if m.name != name {
				continue
			}
			if _, twice := found[name]; twice {
				return nil, errModel
			}
			found[name] = m.value
		}
	}
	return found, nil
}

// modelObject returns an error if this package must not accept the object.
func modelObject(text []byte) error {
	members, err := modelMembers(text)
	if err != nil {
		return err
	}
	_, err = modelUnique(members, "metadata", "kind", "apiVersion")
	return err
}

// modelJSONList returns the items of a list. status is true if the body is a Status instead. If the
// list is well-formed except for some items, the result omits these items and the error is
// errModelItem.
func modelJSONList(body []byte) (items [][]byte, status bool, err error) {
	if !json.Valid(body) {
		return nil, false, errModel
	}
	members, err := modelMembers(body)
	if err != nil {
		return nil, false, err
	}
	fields, err := modelUnique(members, "items", "kind", "apiVersion", "metadata")
	if err != nil {
		return nil, false, err
	}
	var text struct{ Kind, APIVersion string }
	var meta struct {
		ResourceVersion, Continue *string
		RemainingItemCount        *int64
	}
	for name, into := range map[string]any{"kind": &text.Kind, "apiVersion": &text.APIVersion} {
		if v, ok := fields[name]; ok && json.Unmarshal(v, into) != nil {
			return nil, false, errModel
		}
	}
	if v, ok := fields["metadata"]; ok && string(v) != "null" {
		inner, err := modelMembers(v)
		if err != nil {
			return nil, false, err
		}
		fields, err := modelUnique(inner, "resourceVersion", "continue", "remainingItemCount", "shardInfo")
		if err != nil {
			return nil, false, err
		}
		for name, into := range map[string]any{"resourceVersion": &meta.ResourceVersion, "continue": &meta.Continue, "remainingItemCount": &meta.RemainingItemCount} {
			if v, ok := fields[name]; ok && json.Unmarshal(v, into) != nil {
				return nil, false, errModel
			}
		}
	}
	raw, hasItems := fields["items"]
	switch {
	case text.Kind == "Status" && hasItems, !hasItems && text.Kind != "Status" && !strings.HasSuffix(text.Kind, "List"):
		return nil, false, errModel
	case text.Kind == "Status":
		return nil, true, nil
	}
	var list []json.RawMessage
	if hasItems && json.Unmarshal(raw, &list) != nil {
		return nil, false, errModel
	}
	for _, item := range list {
		if modelObject(item) != nil {
			err = errModelItem
			continue
		}
		items = append(items, item)
	}
	return items, false, err
}

// modelJSONWatch returns the types and objects of the events up to the end of the body, or up to a
// mistake. If the body is well-formed except for some objects, the result omits their events and
// the error is errModelItem.
func modelJSONWatch(body []byte) (events []Event, damaged error) {
	d := json.NewDecoder(bytes.NewReader(body))
	for {
		var doc json.RawMessage
		if err := d.Decode(&doc); err == io.EOF {
			return events, damaged
		} else if err != nil {
			return events, err
		}
		members, err := modelMembers(doc)
		if err != nil {
			return events, err
		}
		fields, err := modelUnique(members, "type", "object")
		if err != nil {
			return events, err
		}
		var name string
		if json.Unmarshal(fields["type"], &name) != nil || fields["object"] == nil {
			return events, errModel
		}
		t, ok := ParseEventType(name)
		if !ok {
			return events, errModel
		}
		switch fine := modelObject(fields["object"]) == nil && modelTypeMeta(fields["object"]); {
		case fine:
			events = append(events, Event{Type: t, Object: fields["object"]})
		case t == Error:
			return events, errModel
		default:
			damaged = errModelItem
		}
	}
}

// modelTypeMeta reports whether an object's kind and apiVersion, if present, are strings.
func modelTypeMeta(object []byte) bool {
	inner, _ := modelMembers(object)
	own, _ := modelUnique(inner, "kind", "apiVersion")
	for _, v := range own {
		var value any
		if err := json.Unmarshal(v, &value); err != nil {
			return false
		}
		if _, isString := value.(string); value != nil && !isString {
			return false
		}
	}
	return true
}

// modelFields splits a message with protowire. It returns the contents of its fields of wire type
// bytes, by field number.
func modelFields(b []byte) (map[protowire.Number][][]byte, error) {
	fields := map[protowire.Number][][]byte{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, errModel
		}
		value := protowire.ConsumeFieldValue(num, typ, b[n:])
		if value < 0 {
			return nil, errModel
		}
		if typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b[n:])
			fields[num] = append(fields[num], v)
		} else {
			fields[num] = append(fields[num], nil)
		}
		b = b[n+value:]
	}
	return fields, nil
}
