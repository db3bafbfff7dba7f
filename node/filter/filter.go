// Package filter is the SQL92 subset of the stock broker (rocketmq-filter 5.5.0), by which a consumer picks messages by
// their properties: "price > 100 AND color IN ('red', 'blue')".
//
//	text --lex.go--> tokens --parse.go--> tree of nodes --eval.go--> yes, no, unknown or failed, for each message
//
// What the language means follows from one fact: every property is a text.
//   - A property beside a number is read as that kind of number by Java's rules, and beside TRUE or FALSE as a boolean. A
//     text that is no such number fails the whole expression, even where the other side of an OR would be true. There are
//     three kinds: with a point or an exponent, up to 2147483647, and larger ones. So "a > 5" fails for 3000000000.
//   - Two properties beside <, <=, > or >= are read as floating-point numbers; beside = and <> they are compared as texts.
//   - A property that a message lacks makes a comparison unknown. AND, OR and NOT follow three-valued logic.
//   - Only TRUE is a match.
//
// Two things differ from the stock broker. Text after a whole expression is an error: there "a LIKE 'x%'" is read as "a".
// And 0.0 is a number: there it is out of range.
//
// The package knows texts and bytes only. Start with Compile.
package filter

import (
	"fmt"
	"unicode/utf8"
)

// SQL92 is the expression type of this language in requests.
const SQL92 = "SQL92"

// Bounds of an expression. It is compiled on a loop when it comes with a pull, and a tree as deep as it is evaluated there.
const (
	MaxBytes = 64 << 10
	maxDepth = 200
	maxNames = 64 // distinct properties
)

// Error says what is wrong with an expression.
type Error struct {
	At  int // the first wrong character; the expression's first is 1
	Why string
}

func (e *Error) Error() string { return fmt.Sprintf("at character %d: %s", e.At, e.Why) }

// Expr is a compiled expression. It does not change: any goroutine may use it.
type Expr struct {
	text  string
	root  *node
	names []string       // the properties that the expression asks for
	slots map[string]int // their places in names; nil while there are few
}

// fewNames is up to how many names are compared one by one.
const fewNames = 8

// Compile reads an expression. The error is an *Error.
func Compile(text string) (*Expr, error) {
	if len(text) > MaxBytes {
		return nil, &Error{At: 1, Why: fmt.Sprintf("the expression has %d bytes, at most %d are taken", len(text), MaxBytes)}
	}
	p := parser{lexer: lexer{text: text}, slots: map[string]int{}}
	root := p.whole()
	if p.wrong != nil {
		return nil, &Error{At: utf8.RuneCountInString(text[:p.wrong.at]) + 1, Why: p.wrong.why}
	}
	e := &Expr{text: text, root: root, names: p.names}
	if len(e.names) > fewNames {
		e.slots = p.slots
	}
	return e, nil
}

// Bytes is about how much memory the expression takes.
func (e *Expr) Bytes() int { return len(e.text) + e.root.bytes() }

// String returns the text that was compiled.
func (e *Expr) String() string { return e.text }
