package filter

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

// lines decodes each line of a file.
func lines[T any](t *testing.T, file string) (all []T) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if err := s.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d lines, %v", file, len(all), err)
	}
	return all
}

// evaluate gives the expression properties that need not come from a record: their values may be empty.
func evaluate(e *Expr, props map[string]string) truth {
	m := message{props: "x"}
	for i, name := range e.names {
		if v, ok := props[name]; ok {
			from := len(m.props)
			m.props += v
			m.found[i] = span{uint16(from), uint16(len(m.props))}
		}
	}
	return e.root.test(&m)
}

// stored writes properties as a record has them.
func stored(props map[string]string) (b []byte) {
	for name, v := range props {
		b = append(append(append(append(b, name...), 1), v...), 2)
	}
	return b
}

// trailing are the expressions of sql92.jsonl that go on after their end. A stock broker does not look there.
var trailing = map[string]int{ // where they go on
	"a > 5)": 6, "a b": 3, "a LIKE 'ab%'": 3, "a LIKE '_bc'": 3, "a + 1 > 5": 3, "a - 1 > 5": 3, "a-b = 1": 2,
	"a = 0x5": 6, "a = 05": 6, "a > 5 -- comment": 7, "NOW() > 0": 4,
}

// TestAsStock holds every expression that a stock broker 5.5.0 was asked to what it said.
func TestAsStock(t *testing.T) {
	type row struct {
		Expr         string
		CompileError bool
		Properties   map[string]string
		EvalError    bool
		Result       *bool
		Match        bool
	}
	refused := map[string]bool{}
	for _, w := range lines[row](t, "testdata/sql92.jsonl") {
		e, err := Compile(fiftyTimes(w.Expr))
		if at, ok := trailing[w.Expr]; ok {
			refused[w.Expr] = true
			var wrong *Error
			if !errors.As(err, &wrong) || wrong.At != at {
				t.Errorf("%q: %v, want an error at %d", w.Expr, err, at)
			}
			continue
		}
		if (err != nil) != w.CompileError {
			t.Errorf("%q: %v, stock: illegal %v", w.Expr, err, w.CompileError)
		}
		if err != nil {
			continue
		}
		want := unknown
		switch {
		case w.EvalError:
			want = failed
		case w.Result != nil:
			want = truthOf(*w.Result)
		}
		if got := evaluate(e, w.Properties); got != want {
			t.Errorf("%q with %q: %d, stock says %d", w.Expr, w.Properties, got, want)
		}
		if emptyValue(w.Properties) {
			continue // a record cannot have it
		}
		if got := e.Match(stored(w.Properties)); got != w.Match {
			t.Errorf("%q with %q in a record: match %v, stock says %v", w.Expr, w.Properties, got, w.Match)
		}
	}
	if len(refused) != len(trailing) {
		t.Errorf("%d of %d expressions with a tail were seen", len(refused), len(trailing))
	}
}

// fiftyTimes spells out the one expression that the captured rows describe.
func fiftyTimes(expr string) string {
	if expr == "50 times 'a > 1 AND ' then 'a > 1'" {
		return strings.Repeat("a > 1 AND ", 50) + "a > 1"
	}
	return expr
}

func emptyValue(props map[string]string) bool {
	for _, v := range props {
		if v == "" {
			return true
		}
	}
	return false
}

// legalHere are the expressions of edges.jsonl that only a stock broker refuses.
var legalHere = map[string]bool{"a > 0.0": true, "a = 0.0": true}

// TestEdgesAsStock: corners of the grammar, and of how Java reads numbers, as the stock parser judged them. Results are
// one letter for each set of properties: True, false, null, Error.
func TestEdgesAsStock(t *testing.T) {
	type row struct {
		Properties        []map[string]string
		Expr, Results     string
		Illegal, Trailing bool
	}
	all := lines[row](t, "testdata/edges.jsonl")
	sets := all[0].Properties
	for _, w := range all[1:] {
		e, err := Compile(w.Expr)
		if bad := (w.Illegal || w.Trailing) && !legalHere[w.Expr]; bad != (err != nil) {
			t.Errorf("%q: %v, stock: %+v", w.Expr, err, w)
		}
		if err != nil || w.Results == "" {
			continue
		}
		var got strings.Builder
		for _, props := range sets {
			got.WriteByte("fTnE"[evaluate(e, props)])
		}
		if got.String() != w.Results {
			t.Errorf("%q:\n%s, stock says\n%s", w.Expr, got.String(), w.Results)
		}
	}
}
