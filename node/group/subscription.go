package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ringmq/store/record"
)

// All is the expression that every message matches.
const All = "*"

// Tag is the expression type of tag lists; an empty type means the same.
const Tag = "TAG"

// ErrExpression is the stock broker's complaint about a tag list without a tag.
var ErrExpression = errors.New("subString split error")

// Subscription says which messages of a topic a group wants. Nobody changes it once it is stored.
type Subscription struct {
	Topic   string
	Type    string // Tag, SQL92
	Expr    string // All, tags joined by two pipes, or the text of another type
	Tags    []string
	Codes   []int32 // Java hashes of the tags, in order, each once
	Version int64   // the client's clock when it subscribed: Java in ms, Go in ns or 0
}

// TakesAll reports whether Match says yes to every message.
func (s *Subscription) TakesAll() bool { return s.Expr == All || s.Type != Tag }

// Match judges a message by the tag hash of its queue entry. It may say yes to another tag of equal hash,
// which the client sorts out, and says yes to whatever Codes cannot judge.
func (s *Subscription) Match(tagsCode int64) bool {
	if s.TakesAll() {
		return true
	}
	_, found := slices.BinarySearch(s.Codes, int32(tagsCode))
	return found
}

// maxExprBytes bounds a tag list that comes with a pull: it is read on a loop, for every pull.
const maxExprBytes = 64 << 10

// NewSubscription reads an expression as the stock broker does (FilterAPI of release 5.5.0): empty or "*" is
// everything, tags are joined by two pipes, blanks around them do not count. Only a tag list can be wrong: without a tag, or
// longer than any that was ever meant.
func NewSubscription(topic, expr, exprType string, version int64) (*Subscription, error) {
	s := &Subscription{Topic: topic, Type: exprType, Expr: expr, Version: version}
	if s.Type == "" {
		s.Type = Tag
	}
	if s.Type != Tag {
		return s, nil
	}
	if s.Expr == "" {
		s.Expr = All
	}
	if s.Expr == All {
		return s, nil
	}
	if len(expr) > maxExprBytes {
		return nil, fmt.Errorf("a tag list of %d bytes: at most %d", len(expr), maxExprBytes)
	}
	something := false
	for tag := range strings.SplitSeq(expr, "||") {
		something = something || tag != ""
		if tag = strings.TrimSpace(tag); tag != "" {
			s.add(tag)
		}
	}
	if !something {
		return nil, ErrExpression // pipes only; blanks between them are no tag and no error
	}
	s.sort()
	return s, nil
}

// add takes a tag in; sort must follow.
func (s *Subscription) add(tag string) {
	s.Tags = append(s.Tags, tag)
	s.Codes = append(s.Codes, record.JavaHash([]byte(tag)))
}

// sort puts tags and codes in order, each once.
func (s *Subscription) sort() {
	slices.Sort(s.Tags)
	s.Tags = slices.Compact(s.Tags)
	slices.Sort(s.Codes)
	s.Codes = slices.Compact(s.Codes)
}
