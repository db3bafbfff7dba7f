package filter

import (
	"math"
	"strings"
	"unsafe"
)

// op is what a node does.
type op uint8

const (
	opConst   op = iota // a literal
	opNegated           // a literal after a minus
	opProp              // a property
	opNothing           // of one kid, which may fail: NULL

	// What follows is a condition.
	opIsTrue // of a property: false, since none is a boolean
	opNot
	opAnd
	opOr
	opIsNull
	opEqual
	opMore
	opMoreEqual
	opLess
	opLessEqual
	opIn
	opContains
	opStartsWith
	opEndsWith
)

// node is one operator or operand.
type node struct {
	op    op
	not   bool // of the words that may follow a NOT
	depth int
	slot  int
	kids  []*node
	value value           // of a literal; the text that is looked for
	set   map[string]bool // of IN
}

// bytes is about how much memory n takes, with all below it.
func (n *node) bytes() int {
	const own, kid, member = 96, 16, 48
	sum := own + kid*len(n.kids) + member*len(n.set)
	for _, k := range n.kids {
		sum += k.bytes()
	}
	return sum
}

// boolean reports whether n is a condition. NULL is one too.
func (n *node) boolean() bool {
	return n.op >= opIsTrue || n.op == opConst && (n.value.kind == boolean || n.value.kind == null)
}

// constant returns the kind of a literal, property for anything else.
func (n *node) constant() valueKind {
	if n.op == opConst {
		return n.value.kind
	}
	return property
}

// valueKind is what a value is.
type valueKind uint8

const (
	null valueKind = iota
	boolean
	long
	double
	str
	broken   // reading it failed
	property // never of a value: see node.constant
)

// value is what an operand has for one message.
type value struct {
	kind  valueKind
	yes   bool
	short bool   // of a long: a literal of 32 bits, which makes a text beside it such a number too
	bits  uint64 // of a number
	text  string
}

func longValue(n int64, short bool) value {
	return value{kind: long, bits: uint64(n), short: short}
}

func doubleValue(f float64) value { return value{kind: double, bits: math.Float64bits(f)} }

func (v value) long() int64 { return int64(v.bits) }

// double is a number of either kind.
func (v value) double() float64 {
	if v.kind == long {
		return float64(v.long())
	}
	return math.Float64frombits(v.bits)
}

func (v value) negative() value {
	switch v.kind {
	case long:
		return longValue(-v.long(), v.short)
	case double:
		return doubleValue(-v.double())
	}
	return value{}
}

// truth is the result of a condition.
type truth uint8

const (
	no truth = iota
	yes
	unknown
	failed
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

func (t truth) not() truth {
	switch t {
	case no:
		return yes
	case yes:
		return no
	}
	return t
}

// span is where in the properties a value stands; empty if there is none.
type span struct{ from, to uint16 }

// message is what an expression looks at: properties, and where in them those are that it names.
type message struct {
	props string
	found [maxNames]span
}

// text returns the value of a property.
func (m *message) text(slot int) (text string, ok bool) {
	s := m.found[slot]
	return m.props[s.from:s.to], s.to > 0
}

// Match tells whether a message with these properties, in the form of package record, is wanted. It allocates nothing,
// except where a number is too large for Java.
func (e *Expr) Match(props []byte) bool {
	if len(props) > math.MaxUint16 {
		return false // no record has so many
	}
	m := message{props: unsafe.String(unsafe.SliceData(props), len(props))} // nobody changes them meanwhile
	e.find(&m)
	return e.root.test(&m) == yes
}

// In properties these follow a name, and a value.
const nameEnd, valueEnd = 0x01, 0x02

// find walks over the properties by the rules of record.Props. Of two with one name the last counts.
func (e *Expr) find(m *message) {
	props := m.props
	for at := 0; at < len(props); {
		n := strings.IndexByte(props[at:], valueEnd)
		end := at + n
		if n < 0 {
			end = len(props)
		}
		if slot := e.slot(props[at:end]); slot >= 0 {
			if from := at + len(e.names[slot]) + 1; from < end {
				m.found[slot] = span{uint16(from), uint16(end)}
			}
		}
		at = end + 1
	}
}

// slot returns the place of the name with which a property begins, -1 if the expression does not ask for it.
func (e *Expr) slot(property string) int {
	if e.slots != nil {
		name, _, _ := strings.Cut(property, string(rune(nameEnd)))
		if slot, ok := e.slots[name]; ok && len(name) < len(property) {
			return slot
		}
		return -1
	}
	for i, name := range e.names {
		if n := len(name); n < len(property) && property[n] == nameEnd && property[:n] == name {
			return i // a name has no bytes like nameEnd
		}
	}
	return -1
}

// operand returns the value of n.
func (n *node) operand(m *message) value {
	switch n.op {
	case opConst, opNegated:
		return n.value
	case opProp:
		if text, ok := m.text(n.slot); ok {
			return value{kind: str, text: text}
		}
		return value{}
	case opNothing:
		if n.kids[0].operand(m).kind == broken {
			return value{kind: broken}
		}
		return value{}
	}
	switch n.test(m) {
	case no:
		return value{kind: boolean}
	case yes:
		return value{kind: boolean, yes: true}
	case unknown:
		return value{}
	}
	return value{kind: broken}
}

// test returns the result of a condition.
func (n *node) test(m *message) truth {
	switch n.op {
	case opAnd:
		return n.all(m, no)
	case opOr:
		return n.all(m, yes)
	case opNot:
		return n.kids[0].test(m).not()
	case opEqual, opMore, opMoreEqual, opLess, opLessEqual:
		return n.compare(m)
	case opConst:
		if n.value.kind == null {
			return unknown
		}
		return truthOf(n.value.yes)
	}
	v := n.kids[0].operand(m)
	if v.kind == broken {
		return failed
	}
	switch n.op {
	case opIsNull:
		return truthOf(v.kind == null)
	case opIsTrue:
		if v.kind == null {
			return unknown
		}
		return no
	case opIn:
		if v.kind == null {
			return unknown
		}
		return truthOf(n.set[v.text] != n.not)
	}
	return n.searchIn(v)
}

// all looks at one condition after the other until one has the result that decides: no in an AND, yes in an OR. One that
// fails ends it too.
func (n *node) all(m *message, decides truth) truth {
	result := decides.not()
	for _, kid := range n.kids {
		switch t := kid.test(m); t {
		case decides, failed:
			return t
		case unknown:
			result = unknown
		}
	}
	return result
}

// searchIn looks for a text in v. Where v is no text, or the text that is looked for is empty, the answer is no, with a
// NOT as well.
func (n *node) searchIn(v value) truth {
	wanted := n.value.text
	if v.kind != str || wanted == "" {
		return no
	}
	var has bool
	switch n.op {
	case opContains:
		has = strings.Contains(v.text, wanted)
	case opStartsWith:
		has = strings.HasPrefix(v.text, wanted)
	default:
		has = strings.HasSuffix(v.text, wanted)
	}
	return truthOf(has != n.not)
}
