package group

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

func TestSubscriptionsAsStock(t *testing.T) {
	f, err := os.Open("testdata/subscriptions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := 0
	for s := bufio.NewScanner(f); s.Scan(); seen++ {
		var w struct {
			Sub, Error, SubString, ExpressionType string
			TagsSet                               []string
			CodeSet                               []int32
		}
		if err := json.Unmarshal(s.Bytes(), &w); err != nil {
			t.Fatal(err)
		}
		got, err := NewSubscription("T", w.Sub, "", 7)
		if w.Error != "" {
			if err == nil || err.Error() != w.Error {
				t.Errorf("%q: %v, stock says %q", w.Sub, err, w.Error)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", w.Sub, err)
			continue
		}
		slices.Sort(got.Codes)
		slices.Sort(w.CodeSet)
		slices.Sort(got.Tags)
		slices.Sort(w.TagsSet)
		if got.Expr != w.SubString || got.Type != w.ExpressionType || !slices.Equal(got.Tags, w.TagsSet) || !slices.Equal(got.Codes, w.CodeSet) {
			t.Errorf("%q: %+v, stock says %+v", w.Sub, got, w)
		}
	}
	if seen == 0 {
		t.Fatal("no subscriptions")
	}
}

func TestMatch(t *testing.T) {
	const tagA, tagB = 2598919, 2598920
	for _, w := range []struct {
		expr, exprType string
		code           int64
		want           bool
	}{
		{"*", "", tagA, true},
		{"", "TAG", 0, true},
		{"TagA", "TAG", tagA, true},
		{"TagA", "TAG", tagB, false},
		{"TagA", "TAG", 0, false}, // a message without a tag
		{"TagB || TagA", "TAG", tagA, true},
		{"a > 1", "SQL92", 0, true}, // judged by its properties, later
	} {
		s, err := NewSubscription("T", w.expr, w.exprType, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Match(w.code); got != w.want {
			t.Errorf("%q %s of %d: %v", w.expr, w.exprType, w.code, got)
		}
	}
}

// FuzzSubscription: any text is an error or a subscription whose own tags match.
func FuzzSubscription(f *testing.F) {
	for _, seed := range []string{"*", "", "TagA||TagB", "||", "|", "a|||b", " || x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		s, err := NewSubscription("T", expr, "", 0)
		if err != nil {
			return
		}
		for _, code := range s.Codes {
			if !s.Match(int64(code)) {
				t.Fatalf("%q does not match its code %d", expr, code)
			}
		}
		if len(s.Codes) > len(s.Tags) {
			t.Fatalf("%q: %d codes of %d tags", expr, len(s.Codes), len(s.Tags))
		}
	})
}
