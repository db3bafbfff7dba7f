package filter

import (
	"cmp"
	"math"
	"strings"
)

// compare returns the result of =, <, <=, > or >=.
func (n *node) compare(m *message) truth {
	left, right := n.kids[0], n.kids[1]
	if left.op == opProp && (right.op == opConst || right.op == opNegated) && right.value.kind != null {
		text, ok := m.text(left.slot) // nearly all comparisons: spare them the detour over values
		if !ok {
			return unknown
		}
		return n.op.ofText(text, &right.value)
	}
	a := left.operand(m)
	if n.op == opEqual {
		return equal(a, right.operand(m))
	}
	if a.kind == null {
		return unknown // the other side is not looked at and cannot fail
	}
	return order(n.op, a, right.operand(m))
}

// ofText compares a text with a literal, as which it is read.
func (o op) ofText(text string, literal *value) truth {
	ok := true
	c := 0
	switch literal.kind {
	case long:
		var n int64
		n, ok = javaLong(text)
		ok = ok && (!literal.short || isShort(n))
		c = cmp.Compare(n, literal.long())
	case double:
		var f float64
		f, ok = javaDouble(text)
		c = compareDoubles(f, literal.double())
	case boolean:
		c = differs(isTrue(text) != literal.yes)
	default:
		c = differs(text != literal.text)
	}
	if !ok {
		return failed
	}
	return o.holds(c)
}

// holds tells whether a comparison is true for two values of which the first is greater (c > 0), less (c < 0) or neither.
func (o op) holds(c int) truth {
	switch o {
	case opEqual:
		return truthOf(c == 0)
	case opMore:
		return truthOf(c > 0)
	case opMoreEqual:
		return truthOf(c >= 0)
	case opLess:
		return truthOf(c < 0)
	}
	return truthOf(c <= 0)
}

// equal compares two values. NULL equals NULL; a value does not equal NULL; whether NULL equals a value is unknown.
func equal(a, b value) truth {
	switch {
	case a.kind == broken || b.kind == broken:
		return failed
	case a.kind == null && b.kind != null:
		return unknown
	case a.kind == null || b.kind == null:
		return truthOf(a.kind == b.kind)
	case a.kind == str && b.kind == str:
		return truthOf(a.text == b.text)
	case a.kind == str:
		return opEqual.ofText(a.text, &b)
	case b.kind == str && a.kind == boolean:
		return failed // in this order only
	case b.kind == str:
		return opEqual.ofText(b.text, &a)
	case a.kind == boolean && b.kind == boolean:
		return truthOf(a.yes == b.yes)
	case a.kind == boolean || b.kind == boolean:
		return no
	}
	return truthOf(compareNumbers(a, b) == 0)
}

// order compares two numbers, or texts that are numbers, by size; a is not NULL.
func order(o op, a, b value) truth {
	switch {
	case a.kind == broken || b.kind == broken:
		return failed
	case b.kind == null:
		return unknown
	case a.kind == str && b.kind == str:
		f, ok := javaDouble(b.text)
		if !ok {
			return failed
		}
		b = doubleValue(f)
		return o.ofText(a.text, &b)
	case a.kind == str:
		return o.ofText(a.text, &b)
	case b.kind == str:
		return o.mirrored().ofText(b.text, &a)
	}
	return o.holds(compareNumbers(a, b))
}

// mirrored is the comparison that has the same result with its sides changed.
func (o op) mirrored() op {
	switch o {
	case opMore:
		return opLess
	case opMoreEqual:
		return opLessEqual
	case opLess:
		return opMore
	}
	return opMoreEqual
}

func isShort(n int64) bool { return n == int64(int32(n)) }

func isTrue(text string) bool { return len(text) == 4 && strings.EqualFold(text, "true") }

// differs is a comparison that knows equal and other only.
func differs(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func compareNumbers(a, b value) int {
	if a.kind == long && b.kind == long {
		return cmp.Compare(a.long(), b.long())
	}
	return compareDoubles(a.double(), b.double())
}

// compareDoubles returns which of two numbers is greater, in Java's order: -0.0 is less than 0.0, and NaN is greater than
// anything else.
func compareDoubles(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return rank(a) - rank(b) // equal, or zeros, or NaN
}

// rank puts zeros, other numbers and NaN in order.
func rank(f float64) int {
	switch {
	case math.IsNaN(f):
		return 3
	case f == 0 && math.Signbit(f):
		return 1
	}
	return 2
}
