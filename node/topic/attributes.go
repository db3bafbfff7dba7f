package topic

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// attribute is a topic attribute that the stock broker 5.5.0 knows.
type attribute struct {
	fixed  bool     // cannot be changed once the topic exists
	values []string // nil: a number from -1
}

var attributes = map[string]attribute{
	"queue.type":     {fixed: true, values: []string{"BatchCQ", "SimpleCQ"}},
	"cleanup.policy": {fixed: true, values: []string{"DELETE", "COMPACTION"}},
	"message.type":   {values: []string{"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"}},
	"reserve.time":   {},
}

// Alter returns the attributes of a topic after a change in the form that tools send: a comma list of
// +key=value and -key. current is nil for a topic that is being created; it is never changed itself.
func Alter(current map[string]string, change string) (map[string]string, error) {
	changes, err := parseChange(change)
	if err != nil {
		return nil, err
	}
	altered := maps.Clone(current)
	if altered == nil {
		altered = map[string]string{}
	}
	for _, signed := range slices.Sorted(maps.Keys(changes)) {
		if err := alter(altered, current == nil, signed, changes[signed]); err != nil {
			return nil, err
		}
	}
	return altered, nil
}

// parseChange splits a change. The keys keep their sign, as in the stock parser, whose words the errors are.
func parseChange(text string) (map[string]string, error) {
	changes := map[string]string{}
	if text == "" {
		return changes, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		key, value, set := strings.Cut(part, "=")
		switch {
		case set && !strings.Contains(key, "+"):
			return nil, fmt.Errorf("add/alter attribute format is wrong: %s", key)
		case !set && !strings.Contains(key, "-"):
			return nil, fmt.Errorf("delete attribute format is wrong: %s", key)
		}
		if _, twice := changes[key]; twice {
			return nil, fmt.Errorf("key duplication: %s", key)
		}
		changes[key] = value
	}
	return changes, nil
}

// alter makes one change in place.
func alter(m map[string]string, creating bool, signed, value string) error {
	sign, name := signed[:1], signed[1:] // parseChange has seen a sign
	a, ok := attributes[name]
	_, has := m[name]
	switch {
	case sign != "+" && sign != "-":
		return fmt.Errorf("wrong format key: %s", signed)
	case sign == "-" && creating:
		return fmt.Errorf("only add attribute is supported while creating topic. key: %s", name)
	case sign == "-" && !has:
		return fmt.Errorf("attempt to delete a nonexistent key: %s", name)
	case !ok:
		return fmt.Errorf("unsupported key: %s", name)
	case a.fixed && !creating:
		return fmt.Errorf("attempt to update an unchangeable attribute. key: %s", name)
	case sign == "-":
		delete(m, name)
		return nil
	}
	if err := a.judge(value); err != nil {
		return fmt.Errorf("%s=%s: %w", name, value, err)
	}
	m[name] = value
	return nil
}

func (a attribute) judge(value string) error {
	if a.values == nil {
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < -1 {
			return fmt.Errorf("want a number from -1")
		}
		return nil
	}
	if !slices.Contains(a.values, value) {
		return fmt.Errorf("want one of %s", strings.Join(a.values, ", "))
	}
	return nil
}
