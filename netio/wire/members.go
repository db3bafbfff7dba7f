package wire

import (
	"reflect"
	"strings"
	"sync"
)

// members are the JSON members of a struct type.
type members []memberField

type memberField struct {
	name  string
	index []int // for reflect's FieldByIndex
}

// knownMembers holds a members per reflect.Type; any goroutine.
var knownMembers sync.Map

// membersOf reads the json tags of a struct as encoding/json does, except that two of the same name
// do not hide each other: the first one wins.
func membersOf(t reflect.Type) members {
	if m, ok := knownMembers.Load(t); ok {
		return m.(members)
	}
	var ms members
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous && name == "" || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		ms = append(ms, memberField{name, f.Index})
	}
	knownMembers.Store(t, ms)
	return ms
}

// find returns the member of that name, or else of a name that fastjson takes for the same.
func (ms members) find(key []byte) *memberField {
	for i := range ms {
		if string(key) == ms[i].name {
			return &ms[i]
		}
	}
	for i := range ms {
		if sameName(key, ms[i].name) {
			return &ms[i]
		}
	}
	return nil
}
