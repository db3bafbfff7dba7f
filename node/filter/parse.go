package filter

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parser reads the grammar from the loosest binding down, each rule in a method of its name:
//
//	or         = and { OR and }
//	and        = equality { AND equality }
//	equality   = comparison { "=" comparison | "<>" comparison | IS [NOT] NULL }
//	comparison = unary { ("<" | "<=" | ">" | ">=") unary | [NOT] BETWEEN unary AND unary | [NOT] IN "(" text {"," text} ")"
//	                   | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text }
//	unary      = ("+" | "-" | NOT) unary | primary
//	primary    = number | text | TRUE | FALSE | NULL | name | "(" or ")"
//
// NOT binds tightest: "NOT a = 5" is "(NOT a) = 5", as on the stock broker. Once something is wrong all methods return
// at once, and what they return does not matter.
type parser struct {
	lexer
	tok   token // the next one, not taken yet
	depth int   // of unary in unary
	names []string
	slots map[string]int
}

func (p *parser) whole() *node {
	p.advance()
	n := p.condition(p.tok.at, p.or())
	if p.tok.kind != theEnd {
		p.unexpected("an operator or the end")
	}
	return n
}

// advance takes the token that comes next.
func (p *parser) advance() token {
	t := p.tok
	p.tok = p.next()
	return t
}

// accept takes the next token if it is of kind k.
func (p *parser) accept(k kind) bool {
	if p.tok.kind != k {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(k kind) token {
	if p.tok.kind != k {
		p.unexpected(quoted(k))
	}
	return p.advance()
}

// unexpected complains of the next token.
func (p *parser) unexpected(want string) {
	found := fmt.Sprintf("%q", p.tok.text)
	if p.tok.kind == theEnd {
		found = "the end"
	}
	p.fail(p.tok.at, "found %s, want %s", found, want)
}

// quoted names a kind in a complaint.
func quoted(k kind) string {
	switch k {
	case aName, aText, anInteger, aFloat, theEnd:
		return string(k)
	}
	return strconv.Quote(string(k))
}

func (p *parser) or() *node { return p.chain(opOr, "OR", p.and) }

func (p *parser) and() *node { return p.chain(opAnd, "AND", p.equality) }

// chain reads conditions that a word joins.
func (p *parser) chain(o op, word kind, part func() *node) *node {
	at := p.tok.at
	first := part()
	if p.tok.kind != word {
		return first
	}
	kids := []*node{p.condition(at, first)}
	for p.wrong == nil && p.accept(word) {
		at = p.tok.at
		kids = append(kids, p.condition(at, part()))
	}
	return p.join(at, o, kids...)
}

// condition makes a node that is true or false; a property is never true.
func (p *parser) condition(at int, n *node) *node {
	switch {
	case n.boolean():
		return n
	case n.op == opProp:
		return p.join(at, opIsTrue, n)
	}
	p.fail(at, "this is a value, want a condition")
	return n
}

// join makes a node above kids.
func (p *parser) join(at int, o op, kids ...*node) *node {
	n := &node{op: o, kids: kids, depth: 1}
	for _, kid := range kids {
		n.depth = max(n.depth, kid.depth+1)
	}
	if n.depth > maxDepth {
		p.tooDeep(at)
	}
	return n
}

func (p *parser) tooDeep(at int) {
	p.fail(at, "the expression is nested deeper than %d levels", maxDepth)
}

func (p *parser) equality() *node {
	left := p.comparison()
	for p.wrong == nil {
		at := p.tok.at
		switch {
		case p.accept("="):
			left = p.equal(at, left, p.comparison())
		case p.accept("<>"):
			left = p.join(at, opNot, p.equal(at, left, p.comparison()))
		case p.accept("IS"):
			not := p.accept("NOT")
			p.expect("NULL")
			left = p.join(at, opIsNull, left)
			if not {
				left = p.join(at, opNot, left)
			}
		default:
			return left
		}
	}
	return left
}

func (p *parser) equal(at int, left, right *node) *node {
	l, r := left.constant(), right.constant()
	switch {
	case l == null || r == null:
		p.fail(at, "NULL equals nothing: use IS NULL or IS NOT NULL")
	case l == boolean && r != boolean && right.op == opConst:
		p.fail(at, "TRUE and FALSE cannot be compared with a number or a text")
	}
	return p.join(at, opEqual, left, right)
}

func (p *parser) comparison() *node {
	left := p.unary()
	for p.wrong == nil {
		at := p.tok.at
		switch {
		case p.accept(">"):
			left = p.order(at, opMore, left, p.unary())
		case p.accept(">="):
			left = p.order(at, opMoreEqual, left, p.unary())
		case p.accept("<"):
			left = p.order(at, opLess, left, p.unary())
		case p.accept("<="):
			left = p.order(at, opLessEqual, left, p.unary())
		case p.accept("NOT"):
			left = p.wordy(at, left, true)
		case p.tok.kind == "BETWEEN" || p.tok.kind == "IN" || isSearch(p.tok.kind):
			left = p.wordy(at, left, false)
		default:
			return left
		}
	}
	return left
}

// order compares two values by size.
func (p *parser) order(at int, o op, left, right *node) *node {
	for _, n := range []*node{left, right} {
		if c := n.constant(); n.boolean() || c == str {
			p.fail(at, "only numbers and properties can be greater or less than something")
		}
	}
	return p.join(at, o, left, right)
}

// wordy reads one of the operators that are words.
func (p *parser) wordy(at int, left *node, not bool) *node {
	switch {
	case p.accept("BETWEEN"):
		return p.between(at, left, not)
	case p.accept("IN"):
		return p.in(at, left, not)
	case isSearch(p.tok.kind):
		return p.search(at, left, not)
	}
	p.unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
	return left
}

func (p *parser) between(at int, left *node, not bool) *node {
	low := p.unary()
	p.expect("AND")
	high := p.unary()
	if not {
		return p.join(at, opOr, p.order(at, opLess, left, low), p.order(at, opMore, left, high))
	}
	n := p.join(at, opAnd, p.order(at, opMoreEqual, left, low), p.order(at, opLessEqual, left, high))
	if p.wrong == nil && low.op == opConst && high.op == opConst && order(opLess, high.value, low.value) == yes {
		p.fail(at, "nothing is between these two: the first is greater than the second")
	}
	return n
}

func (p *parser) in(at int, left *node, not bool) *node {
	if left.op != opProp {
		p.fail(at, "the left side of IN must be a property")
	}
	p.expect("(")
	n := p.join(at, opIn, left)
	n.not = not
	n.set = map[string]bool{p.text(): true}
	for p.wrong == nil && p.accept(",") {
		n.set[p.text()] = true
	}
	p.expect(")")
	return n
}

// text takes a text literal and returns what it stands for.
func (p *parser) text() string {
	t := p.expect(aText)
	if p.wrong != nil {
		return ""
	}
	return unquote(t.text)
}

// searches are the operators that look for a text in a property.
var searches = map[kind]op{"CONTAINS": opContains, "STARTSWITH": opStartsWith, "ENDSWITH": opEndsWith}

func isSearch(k kind) bool {
	_, ok := searches[k]
	return ok
}

func (p *parser) search(at int, left *node, not bool) *node {
	n := p.join(at, searches[p.advance().kind], left)
	n.not = not
	n.value = value{kind: str, text: p.text()}
	return n
}

func (p *parser) unary() *node {
	p.depth++
	defer func() { p.depth-- }()
	at := p.tok.at
	if p.depth > maxDepth {
		p.tooDeep(at)
	}
	switch {
	case p.wrong != nil:
		return &node{op: opConst}
	case p.accept("+"):
		return p.unary()
	case p.accept("-"):
		return p.negate(at, p.unary())
	case p.accept("NOT"):
		return p.join(at, opNot, p.condition(p.tok.at, p.unary()))
	}
	return p.primary()
}

// negate makes -n. A number becomes another one, but it does not count as a literal: "a BETWEEN 5 AND -1" is legal. Of
// anything else there is no negative value.
func (p *parser) negate(at int, n *node) *node {
	if n.op == opConst || n.op == opNegated {
		return &node{op: opNegated, value: n.value.negative(), depth: 1}
	}
	return p.join(at, opNothing, n)
}

func (p *parser) primary() *node {
	switch t := p.tok; t.kind {
	case anInteger:
		p.advance()
		return p.integer(t)
	case aFloat:
		p.advance()
		return p.floating(t)
	case aText:
		p.advance()
		return literal(value{kind: str, text: unquote(t.text)})
	case "TRUE", "FALSE":
		p.advance()
		return literal(value{kind: boolean, yes: t.kind == "TRUE"})
	case "NULL":
		p.advance()
		return literal(value{})
	case aName:
		p.advance()
		return &node{op: opProp, slot: p.slot(t), depth: 1}
	case "(":
		p.advance()
		n := p.or()
		p.expect(")")
		return n
	}
	p.unexpected("a property, a number, a text or a condition")
	return &node{op: opConst}
}

func literal(v value) *node { return &node{op: opConst, value: v, depth: 1} }

func (p *parser) integer(t token) *node {
	n, err := strconv.ParseInt(strings.TrimRight(t.text, "lL"), 10, 64)
	if err != nil {
		p.fail(t.at, "the largest integer is %d", int64(math.MaxInt64))
	}
	return literal(longValue(n, isShort(n)))
}

func (p *parser) floating(t token) *node {
	f, err := strconv.ParseFloat(t.text, 64)
	if err != nil {
		p.fail(t.at, "the largest floating-point number is %v", math.MaxFloat64)
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(t.text), "e")
	if f == 0 && strings.Trim(mantissa, "0.") != "" {
		p.fail(t.at, "the smallest floating-point number above 0 is %v", math.SmallestNonzeroFloat64)
	}
	return literal(doubleValue(f))
}

// slot returns the place of a property in Expr.names.
func (p *parser) slot(t token) int {
	if slot, ok := p.slots[t.text]; ok {
		return slot
	}
	if len(p.names) == maxNames {
		p.fail(t.at, "the expression names more than %d properties", maxNames)
		return 0
	}
	p.slots[t.text] = len(p.names)
	p.names = append(p.names, t.text)
	return len(p.names) - 1
}
