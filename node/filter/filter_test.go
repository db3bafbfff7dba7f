package filter

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"ringmq/store/record"
)

// must compiles an expression that is legal.
func must(t testing.TB, text string) *Expr {
	t.Helper()
	e, err := Compile(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return e
}

// TestErrorsSayWhereAndWhat: a user finds the place in what was written, and reads what would be right.
func TestErrorsSayWhereAndWhat(t *testing.T) {
	for text, want := range map[string]string{
		"":                        `at character 1: found the end, want a property, a number, a text or a condition`,
		"a >":                     `at character 4: found the end, want a property, a number, a text or a condition`,
		"a > 5 AND":               `at character 10: found the end, want a property, a number, a text or a condition`,
		"a LIKE 'x%'":             `at character 3: found "LIKE", want an operator or the end`,
		"a > 5)":                  `at character 6: found ")", want an operator or the end`,
		"(a > 5":                  `at character 7: found the end, want ")"`,
		"b = '值' a":               `at character 9: found "a", want an operator or the end`,
		"a != 5":                  `at character 3: '!' is not part of the language`,
		"标 = 'x'":                 `at character 1: '标' is not part of the language`,
		"a = \xff":                `at character 5: '�' is not part of the language`,
		"a = 'x":                  `at character 5: the text does not end: a quote is missing`,
		"a /* b":                  `at character 3: the comment does not end`,
		"a = NULL":                `at character 3: NULL equals nothing: use IS NULL or IS NOT NULL`,
		"TRUE = 5":                `at character 6: TRUE and FALSE cannot be compared with a number or a text`,
		"a > 'x'":                 `at character 3: only numbers and properties can be greater or less than something`,
		"a BETWEEN 7 AND 1":       `at character 3: nothing is between these two: the first is greater than the second`,
		"5 IN ('5')":              `at character 3: the left side of IN must be a property`,
		"a IN (5)":                `at character 7: found "5", want a text`,
		"a IN ('5'":               `at character 10: found the end, want ")"`,
		"a CONTAINS b":            `at character 12: found "b", want a text`,
		"a NOT 5":                 `at character 7: found "5", want BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH`,
		"a IS 5":                  `at character 6: found "5", want "NULL"`,
		"a OR 5":                  `at character 6: this is a value, want a condition`,
		"a = 9223372036854775808": `at character 5: the largest integer is 9223372036854775807`,
		"a = 1e999":               `at character 5: the largest floating-point number is 1.7976931348623157e+308`,
		"a = 1e-999":              `at character 5: the smallest floating-point number above 0 is 5e-324`,
	} {
		_, err := Compile(text)
		var wrong *Error
		if !errors.As(err, &wrong) || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestBounds: an expression that would take a loop's time or stack is refused, one below the bound is not.
func TestBounds(t *testing.T) {
	names := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("n%d IS NULL", i))
		}
		return strings.Join(all, " AND ")
	}
	within := map[string]string{
		"parentheses": strings.Repeat("(", 199) + "a" + strings.Repeat(")", 199),
		"not":         strings.Repeat("NOT ", 190) + "a",
		"equalities":  "a" + strings.Repeat(" = b", 198),
		"and":         strings.Repeat("a AND ", 10000) + "a",
		"names":       names(maxNames),
		"bytes":       strings.Repeat(" ", MaxBytes-1) + "a",
	}
	for name, text := range within {
		if _, err := Compile(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"parentheses": strings.Repeat("(", 30000) + "a" + strings.Repeat(")", 30000),
		"not":         strings.Repeat("NOT ", 10000) + "a",
		"minus":       strings.Repeat("- ", 30000) + "5 = 5",
		"plus":        strings.Repeat("+", 60000) + "a",
		"equalities":  "a" + strings.Repeat(" = b", 10000),
		"is null":     "a" + strings.Repeat(" IS NULL", 8000),
		"names":       names(maxNames + 1),
		"bytes":       strings.Repeat(" ", MaxBytes) + "a",
	} {
		if _, err := Compile(text); err == nil {
			t.Errorf("%s beyond the bound: no error", name)
		}
	}
}

// TestBytes: what an expression says that it takes is what it takes, give or take a half.
func TestBytes(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("a=b OR ", 9000) + "a", strings.Repeat("a AND ", 10000) + "a", "a IN ('x'" + manyTexts(8000) + ")",
	} {
		var all []*Expr
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 10 {
			all = append(all, must(t, text))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		took := float64(after.HeapAlloc-before.HeapAlloc) / 10
		said := float64(all[0].Bytes() - len(text)) // the text is shared here
		if said < took/1.5 || said > took*1.5 || all[0].Bytes() > 50*len(text) {
			t.Errorf("%.20q of %d bytes: takes %.0f, says %.0f", text, len(text), took, said)
		}
		runtime.KeepAlive(all)
	}
}

func manyTexts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",'%d'", i)
	}
	return b.String()
}

// TestManyNames: beyond a few, names are found in another way.
func TestManyNames(t *testing.T) {
	for _, count := range []int{fewNames, fewNames + 1, maxNames} {
		var text []string
		var props []byte
		for i := range count {
			text = append(text, fmt.Sprintf("n%d = '%d'", i, i))
			props = record.AppendProp(props, fmt.Sprint("n", i), fmt.Sprint(i))
		}
		e := must(t, strings.Join(text, " AND "))
		if !e.Match(props) {
			t.Errorf("%d names: no match", count)
		}
		if e.Match(record.AppendProp(props, fmt.Sprint("n", count-1), "other")) {
			t.Errorf("%d names: the last value of a property counts, but it matches", count)
		}
	}
}

// TestMatchAllocatesNothing: neither with texts, numbers, failures nor many names.
func TestMatchAllocatesNothing(t *testing.T) {
	props := []byte("a\x0112345\x02b\x013.25e17\x02c\x01red\x02d\x01123456789012345678901234567890123456789.5e-7\x02e\x01no number\x02")
	for _, text := range []string{
		"a > 5 AND b < 1e99 AND c IN ('red', 'blue')",
		"c CONTAINS 'e' OR c STARTSWITH 'x'",
		"d > 1.5",
		"e > 5 OR a > 5",
		"a > b AND missing IS NULL AND -(a > 5) IS NULL AND (a > 5) = (b > 5.5)",
		"a IS NULL OR b IS NULL OR c IS NULL OR d IS NULL OR e IS NULL OR g IS NULL OR h IS NULL OR i IS NULL OR j IS NULL",
	} {
		e := must(t, text)
		if n := testing.AllocsPerRun(100, func() { e.Match(props) }); n != 0 {
			t.Errorf("%q: %v allocations", text, n)
		}
	}
}

// TestCache: the same text is compiled once, also while others come, and the bound holds.
func TestCache(t *testing.T) {
	var c Cache
	first, err := c.Compile("a > 5")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compile("a >"); err == nil || c.Len() != 1 {
		t.Errorf("an illegal expression: error %v, %d are kept", err, c.Len())
	}
	for i := range 3 * cacheExprs {
		if again, err := c.Compile("a > 5"); err != nil || again != first {
			t.Fatalf("after %d others it was compiled again", i)
		}
		if _, err := c.Compile(fmt.Sprintf("a > %d", 10+i)); err != nil {
			t.Fatal(err)
		}
		if c.Len() > 2*cacheExprs {
			t.Fatalf("%d are kept", c.Len())
		}
	}
	for i := range 100 {
		long := fmt.Sprintf("a > %d%s", i, strings.Repeat(" ", MaxBytes-10))
		if _, err := c.Compile(long); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Len(); n > 2*cacheBytes/(MaxBytes-10)+1 {
		t.Errorf("%d long ones are kept", n)
	}
	if n := testing.AllocsPerRun(100, func() { c.Compile("a > 5") }); n > 0 {
		t.Errorf("%v allocations for one that is kept", n)
	}
}

// FuzzCompile: any text is an error with a place in it, or an expression that judges any properties without panic, and
// finds those that package record finds.
func FuzzCompile(f *testing.F) {
	props := []byte("a\x015\x02b\x013.5\x02a\x017\x02\x01x\x02c\x01\x02d")
	for _, seed := range []string{
		"a > 5 AND b < 3.5", "NOT (a IN ('5', 'x''y')) OR b IS NOT NULL", "a BETWEEN -1 AND 1e3", "((a) = TRUE) <> b", "a CONTAINS '5' /* c */ -- d\n",
		"- -5L = +5", "a > 'x", "$_1 NOT STARTSWITH 'y'",
	} {
		f.Add(seed, props)
	}
	f.Fuzz(func(t *testing.T, text string, props []byte) {
		e, err := Compile(text)
		if err != nil {
			var wrong *Error
			if !errors.As(err, &wrong) || wrong.At < 1 || wrong.At > len(text)+1 || wrong.Why == "" {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		e.Match(props)
		if len(props) > 1<<16-1 {
			return
		}
		m := message{props: string(props)}
		e.find(&m)
		for i, name := range e.names {
			want, ok := record.Prop(props, name)
			if got := props[m.found[i].from:m.found[i].to]; string(got) != string(want) || ok != (m.found[i].to > 0) {
				t.Fatalf("%q of %q: %q, package record says %q", name, props, got, want)
			}
		}
	})
}

// FuzzDouble: what Java takes for a number is one for the text without its suffix too, and nothing panics.
func FuzzDouble(f *testing.F) {
	for _, seed := range []string{"1", "-1.5e+3d", "0x1.8p1", "NaN", "+Infinity", " 5\t", "1e", ".", "0x1f", "1_0", "0x.p1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := javaDouble(s)
		if long, isLong := javaLong(s); isLong && isASCII(s) && (!ok || got != float64(long)) {
			t.Fatalf("%q: the integer %d is %v, %v as floating-point number", s, long, got, ok)
		}
		if !ok {
			return
		}
		if again, ok := javaDouble(fmt.Sprint(got)); ok && again != got && got == got {
			t.Fatalf("%q: %v, and again %v", s, got, again)
		}
	})
}

func isASCII(s string) bool {
	for _, c := range []byte(s) {
		if c > 127 {
			return false
		}
	}
	return true
}

// message is what a Java client sends with three properties of its user.
var typical = []byte("KEYS\x01order-4711\x02region\x01north\x02UNIQ_KEY\x01FD0000000000000000000000000000022D925FFD2B27960F80380000\x02" +
	"price\x01129.95\x02CLUSTER\x01DefaultCluster\x02amount\x013\x02WAIT\x01true\x02TAGS\x01TagA\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02")

// BenchmarkMatch is one core's work on one message.
func BenchmarkMatch(b *testing.B) {
	for _, text := range []string{
		"region = 'north'",
		"amount > 2 AND region IN ('north', 'south') AND price BETWEEN 100.0 AND 200.0",
	} {
		e := must(b, text)
		b.Run(fmt.Sprintf("names=%d", len(e.names)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !e.Match(typical) {
					b.Fatal("no match")
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
		})
	}
}
