package filter

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// javaLong reads a text as java.lang.Long.valueOf does: an optional sign and decimal digits of any script in Unicode's
// Basic Multilingual Plane.
func javaLong(s string) (int64, bool) {
	negative := len(s) > 0 && s[0] == '-'
	if negative || len(s) > 0 && s[0] == '+' {
		s = s[1:]
	}
	if len(s) == 0 {
		return 0, false
	}
	var n uint64
	for len(s) > 0 {
		digit, size := uint64(s[0]-'0'), 1
		if s[0] >= utf8.RuneSelf {
			digit, size = foreignDigit(s)
		}
		if digit > 9 || n > (1<<63-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
		s = s[size:]
	}
	if n == 1<<63 && !negative {
		return 0, false
	}
	if negative {
		return -int64(n), true
	}
	return int64(n), true
}

// foreignDigit reads the digit at the start of s, which is not ASCII; more than 9 if there is none.
func foreignDigit(s string) (digit uint64, size int) {
	r, size := utf8.DecodeRuneInString(s)
	for _, set := range unicode.Nd.R16 { // each holds whole rows of ten
		if rune(set.Lo) <= r && r <= rune(set.Hi) {
			return uint64(r-rune(set.Lo)) % 10, size
		}
	}
	return 10, size
}

// javaDouble reads a text as java.lang.Double.valueOf does: white space and control characters around it do not count;
// NaN and Infinity are numbers; a decimal or a hexadecimal number may end with f or d; what is too large is infinite.
func javaDouble(s string) (float64, bool) {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	if f, ok := shortDecimal(s); ok {
		return f, true
	}
	unsigned := s
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		unsigned = s[1:]
	}
	var f float64
	switch {
	case unsigned == "NaN":
		return math.NaN(), true
	case unsigned == "Infinity":
		f = math.Inf(1)
	default:
		number := unsuffixed(unsigned)
		if number == "" {
			return 0, false
		}
		// The text is well formed, so that an error can only say that the number is too large; then f is infinite.
		f, _ = strconv.ParseFloat(number, 64)
	}
	if s[0] == '-' {
		f = -f
	}
	return f, true
}

// tens are the powers of ten that a float64 holds exactly.
var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// shortDecimal reads what nearly all numbers are: 15 digits at most, with or without a point. Both the digits and the power
// of ten are exact, and so one division gives the nearest number.
func shortDecimal(s string) (float64, bool) {
	negative := len(s) > 0 && s[0] == '-'
	if negative {
		s = s[1:]
	}
	if len(s) == 0 || len(s) > len(tens) {
		return 0, false
	}
	var n int64
	point := -1
	for i := range len(s) {
		c := s[i]
		switch {
		case '0' <= c && c <= '9':
			n = n*10 + int64(c-'0')
		case c == '.' && point < 0:
			point = i
		default:
			return 0, false
		}
	}
	f := float64(n)
	if point >= 0 {
		if len(s) == 1 {
			return 0, false
		}
		f /= tens[len(s)-1-point]
	} else if len(s) == len(tens) && n >= 1<<53 {
		return 0, false
	}
	if negative {
		f = -f
	}
	return f, true
}

// unsuffixed returns a well-formed number without a sign and without its suffix, nothing if s is none.
func unsuffixed(s string) string {
	if len(s) > 0 && strings.IndexByte("fFdD", s[len(s)-1]) >= 0 && !isHexInteger(s) {
		s = s[:len(s)-1]
	}
	rest, digit, mark := s, isDecimal, byte('e')
	hex := len(s) > 1 && s[0] == '0' && s[1]|0x20 == 'x'
	if hex {
		rest, digit, mark = s[2:], isHex, 'p'
	}
	whole := leading(rest, digit)
	rest = rest[whole:]
	fraction := 0
	if len(rest) > 0 && rest[0] == '.' {
		fraction = leading(rest[1:], digit)
		rest = rest[1+fraction:]
	}
	if whole+fraction == 0 {
		return ""
	}
	if len(rest) == 0 && !hex {
		return s
	}
	if len(rest) == 0 || rest[0]|0x20 != mark {
		return ""
	}
	rest = rest[1:]
	if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
		rest = rest[1:]
	}
	if n := leading(rest, isDecimal); n == 0 || n < len(rest) {
		return ""
	}
	return s
}

// isHexInteger reports whether s is hexadecimal without an exponent, whose last digit is no suffix; it is no number.
func isHexInteger(s string) bool {
	return len(s) > 1 && s[1]|0x20 == 'x' && !strings.ContainsAny(s, "pP")
}

func leading(s string, is func(byte) bool) int {
	n := 0
	for n < len(s) && is(s[n]) {
		n++
	}
	return n
}

func isDecimal(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDecimal(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
