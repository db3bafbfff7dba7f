package topic

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// lines reads a file of the stock broker's verdicts, one JSON object a line.
func lines[T any](t *testing.T, name string) []T {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	for s := bufio.NewScanner(f); s.Scan(); {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return all
}

// text is what a check says, empty for nothing.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestNamesAsStock(t *testing.T) {
	for _, w := range lines[struct {
		Name, TopicRemark, GroupRemark                     string
		TopicValid, GroupValid, SystemTopic, SendForbidden bool
	}](t, "names.jsonl") {
		if got := CheckName(w.Name); (got == nil) != w.TopicValid || text(got) != w.TopicRemark {
			t.Errorf("CheckName(%q) = %q, stock says %q", w.Name, text(got), w.TopicRemark)
		}
		if got := CheckGroup(w.Name); (got == nil) != w.GroupValid || text(got) != w.GroupRemark {
			t.Errorf("CheckGroup(%q) = %q, stock says %q", w.Name, text(got), w.GroupRemark)
		}
		if IsSystem(w.Name) != w.SystemTopic || SendForbidden(w.Name) != w.SendForbidden {
			t.Errorf("%q: system %v, send forbidden %v, stock says %v, %v", w.Name, IsSystem(w.Name), SendForbidden(w.Name), w.SystemTopic, w.SendForbidden)
		}
	}
}

func TestPermsAsStock(t *testing.T) {
	for _, w := range lines[struct {
		Perm                                                        Perm
		Text                                                        string
		Readable, Writeable, Inherited, Priority, Valid, Accessible bool
	}](t, "perms.jsonl") {
		p := w.Perm
		got := []any{p.String(), p.Readable(), p.Writable(), p.Inherits(), p.Priority(), p.Valid(), p.Accessible()}
		want := []any{w.Text, w.Readable, w.Writeable, w.Inherited, w.Priority, w.Valid, w.Accessible}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("perm %d: %v, stock says %v", int32(p), got, want)
				break
			}
		}
	}
}

func TestAttributeTextsAsStock(t *testing.T) {
	for _, w := range lines[struct {
		Text, Error string
		Map         map[string]string
	}](t, "attributes.jsonl") {
		got, err := parseChange(w.Text)
		if text(err) != w.Error {
			t.Errorf("%q: error %q, stock says %q", w.Text, text(err), w.Error)
		}
		if len(got) != len(w.Map) {
			t.Errorf("%q: %v, stock says %v", w.Text, got, w.Map)
		}
		for k, v := range w.Map {
			if got[k] != v {
				t.Errorf("%q: %v, stock says %v", w.Text, got, w.Map)
			}
		}
	}
}

func TestAlter(t *testing.T) {
	type attrs = map[string]string
	for _, w := range []struct {
		current attrs
		change  string
		want    attrs
		err     string
	}{
		{nil, "", attrs{}, ""},
		{nil, "+message.type=FIFO", attrs{"message.type": "FIFO"}, ""},
		{nil, "+queue.type=BatchCQ,+cleanup.policy=COMPACTION", attrs{"queue.type": "BatchCQ", "cleanup.policy": "COMPACTION"}, ""},
		{nil, "-message.type", nil, "only add attribute is supported while creating topic. key: message.type"},
		{nil, "+color=red", nil, "unsupported key: color"},
		{nil, "+message.type=RED", nil, "message.type=RED: want one of UNSPECIFIED, NORMAL, FIFO, DELAY, TRANSACTION, MIXED"},
		{nil, "+reserve.time=-2", nil, "reserve.time=-2: want a number from -1"},
		{nil, "a+=1", nil, "wrong format key: a+"},
		{attrs{"message.type": "FIFO"}, "+message.type=DELAY", attrs{"message.type": "DELAY"}, ""},
		{attrs{"message.type": "FIFO"}, "-message.type", attrs{}, ""},
		{attrs{}, "-message.type", nil, "attempt to delete a nonexistent key: message.type"},
		{attrs{}, "+queue.type=BatchCQ", nil, "attempt to update an unchangeable attribute. key: queue.type"},
	} {
		got, err := Alter(w.current, w.change)
		if text(err) != w.err || len(got) != len(w.want) {
			t.Errorf("Alter(%v, %q) = %v, %q; want %v, %q", w.current, w.change, got, text(err), w.want, w.err)
		}
		for k, v := range w.want {
			if got[k] != v {
				t.Errorf("Alter(%v, %q) = %v; want %v", w.current, w.change, got, w.want)
			}
		}
	}
}

// FuzzAlter: a stranger's change is taken or refused, and what is taken can be taken back.
func FuzzAlter(f *testing.F) {
	f.Add("+message.type=FIFO")
	f.Add("+a=1,-b")
	f.Add("=,+,-,+=,-=")
	f.Fuzz(func(t *testing.T, change string) {
		got, err := Alter(nil, change)
		if err != nil {
			return
		}
		for k := range got {
			if _, ok := attributes[k]; !ok {
				t.Fatalf("%q made the attribute %q", change, k)
			}
		}
	})
}
