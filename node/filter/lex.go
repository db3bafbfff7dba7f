package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// kind is what a token is. Words of the language and signs are kinds of their own, named by their text.
type kind string

const (
	theEnd    kind = "the end"
	aName     kind = "a name"
	aText     kind = "a text"
	anInteger kind = "an integer"
	aFloat    kind = "a floating-point number"
	illegal   kind = "" // the lexer has set wrong
)

// words in any case are no names.
var words = map[string]kind{
	"NOT": "NOT", "AND": "AND", "OR": "OR", "BETWEEN": "BETWEEN", "IN": "IN", "TRUE": "TRUE", "FALSE": "FALSE",
	"NULL": "NULL", "IS": "IS", "CONTAINS": "CONTAINS", "STARTSWITH": "STARTSWITH", "ENDSWITH": "ENDSWITH",
}

// signs, the longer of two that begin alike first.
var signs = []kind{"<>", "<=", "<", ">=", ">", "=", "(", ")", ",", "+", "-"}

// token is one word, sign or literal.
type token struct {
	kind kind
	text string // as it stands there
	at   int    // its first byte
}

// complaint is the first thing wrong with an expression.
type complaint struct {
	at  int // byte
	why string
}

// lexer cuts an expression into tokens.
type lexer struct {
	text  string
	at    int
	wrong *complaint
}

// fail notes what is wrong unless something was before.
func (l *lexer) fail(at int, format string, args ...any) {
	if l.wrong == nil {
		l.wrong = &complaint{at, fmt.Sprintf(format, args...)}
	}
}

// next cuts off one token; theEnd from there on.
func (l *lexer) next() token {
	l.blanks()
	rest := l.text[l.at:]
	switch {
	case l.wrong != nil:
		return token{illegal, "", l.at}
	case rest == "":
		return token{theEnd, "", l.at}
	case rest[0] == '\'':
		return l.literal(rest)
	case digits(rest) > 0 || rest[0] == '.' && digits(rest[1:]) > 0:
		k, n := number(rest)
		return l.take(k, n)
	case nameBytes(rest) > 0:
		n := nameBytes(rest)
		if word, ok := words[strings.ToUpper(rest[:n])]; ok {
			return l.take(word, n)
		}
		return l.take(aName, n)
	}
	for _, s := range signs {
		if strings.HasPrefix(rest, string(s)) {
			return l.take(s, len(s))
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	l.fail(l.at, "%q is not part of the language", r)
	return token{illegal, "", l.at}
}

func (l *lexer) take(k kind, n int) token {
	t := token{k, l.text[l.at : l.at+n], l.at}
	l.at += n
	return t
}

// blanks skips white space and comments. A comment of the form "-- ..." ends with its line; where no line ends, the
// signs are two minuses, as on the stock broker.
func (l *lexer) blanks() {
	for {
		rest := strings.TrimLeft(l.text[l.at:], " \t\n\r\f")
		l.at = len(l.text) - len(rest)
		switch {
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				l.fail(l.at, "the comment does not end")
				return
			}
			l.at += 2 + n + 2
		case strings.HasPrefix(rest, "--") && strings.ContainsAny(rest, "\n\r"):
			l.at += strings.IndexAny(rest, "\n\r")
		default:
			return
		}
	}
}

// literal takes a text in quotes. Two quotes inside stand for one.
func (l *lexer) literal(rest string) token {
	for n := 1; n < len(rest); n++ {
		switch {
		case rest[n] != '\'':
		case strings.HasPrefix(rest[n+1:], "'"):
			n++
		default:
			return l.take(aText, n+1)
		}
	}
	l.fail(l.at, "the text does not end: a quote is missing")
	return token{illegal, "", l.at}
}

// unquote returns what a text literal stands for.
func unquote(literal string) string {
	return strings.ReplaceAll(literal[1:len(literal)-1], "''", "'")
}

// digits returns how many digits s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// number tells how many bytes of s are a number, and of which kind. An integer is 0 or begins with another digit, and
// may end with L.
func number(s string) (kind, int) {
	whole := digits(s)
	n := whole
	if n < len(s) && s[n] == '.' {
		n++
		n += digits(s[n:])
	}
	n += exponent(s[n:])
	switch {
	case n > whole:
		return aFloat, n
	case s[0] == '0':
		return anInteger, 1
	case n < len(s) && (s[n] == 'l' || s[n] == 'L'):
		n++
	}
	return anInteger, n
}

// exponent returns how many bytes at the start of s are one.
func exponent(s string) int {
	if s == "" || s[0] != 'e' && s[0] != 'E' {
		return 0
	}
	n := 1
	if n < len(s) && (s[n] == '+' || s[n] == '-') {
		n++
	}
	if d := digits(s[n:]); d > 0 {
		return n + d
	}
	return 0
}

// nameBytes returns how many bytes at the start of s are a name.
func nameBytes(s string) int {
	n := 0
	for n < len(s) && (isLetter(s[n]) || n > 0 && '0' <= s[n] && s[n] <= '9') {
		n++
	}
	return n
}

func isLetter(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c == '$'
}
