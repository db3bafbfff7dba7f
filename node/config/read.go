package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// value is one setting as it was given.
type value struct {
	text string
	from string // broker.conf, or the name of the variable or flag
	name string // the key as it was spelled
}

// reader takes typed values and collects the complaints about all of them.
type reader struct {
	values map[string]value // by the key's name in keys.txt
	bad    []error
}

// text returns what was given, or the default.
func (r *reader) text(name string) string {
	if v, ok := r.values[name]; ok {
		return v.text
	}
	return keys[name].standard
}

func (r *reader) given(name string) bool { return r.values[name].text != "" }

// name returns a text that goes into routes, messages and pages of others: it is what can be printed.
func (r *reader) name(name string) string {
	text := r.text(name)
	if strings.ContainsFunc(text, unprintable) {
		r.complain(name, "only characters that can be printed")
	}
	return text
}

// complain names where a value stands, the value, and what is wanted instead.
func (r *reader) complain(name, want string) {
	v, ok := r.values[name]
	if !ok {
		v = value{text: keys[name].standard, from: "default", name: name}
	}
	r.bad = append(r.bad, fmt.Errorf("%s: %s=%s: want %s", v.from, v.name, printable(v.text), want))
}

// printable is text as it is, or quoted where a terminal would not show it.
func printable(text string) string {
	if strings.ContainsFunc(text, unprintable) {
		return strconv.Quote(text)
	}
	return text
}

// unprintable is also true for what is no UTF-8.
func unprintable(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }

func (r *reader) err() error {
	slices.SortStableFunc(r.bad, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(r.bad...)
}

// number returns an integer from least to most; what is not given, or given as nothing, and has no default is 0.
func (r *reader) number(name string, least, most int64) int64 {
	text := r.text(name)
	if text == "" && keys[name].standard == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		r.complain(name, fmt.Sprintf("a number from %d to %d", least, most))
		return least
	}
	return n
}

// ms returns a time given in milliseconds, up to a day.
func (r *reader) ms(name string, least int64) time.Duration {
	const day = 24 * 60 * 60 * 1000
	return time.Duration(r.number(name, least, day)) * time.Millisecond
}

// yes returns a truth value.
func (r *reader) yes(name string) bool {
	switch strings.ToLower(r.text(name)) {
	case "true":
		return true
	case "false":
		return false
	}
	r.complain(name, "true or false")
	return false
}

// one returns the choice that was made, in whatever letter case.
func (r *reader) one(name string, choices ...string) string {
	for _, c := range choices {
		if strings.EqualFold(c, r.text(name)) {
			return c
		}
	}
	r.complain(name, strings.Join(choices, " or "))
	return choices[0]
}

// dirs returns a list of directories joined by commas, as stock brokers 5.5.0 join them.
func (r *reader) dirs(name string) []string {
	var list []string
	for part := range strings.SplitSeq(r.text(name), ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// hostPorts returns a list of host:port joined by semicolons.
func (r *reader) hostPorts(name string) []string {
	var list []string
	for part := range strings.SplitSeq(r.text(name), ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if !isHostPort(part) {
			r.complain(name, "host:port, several joined by semicolons")
			return nil
		}
		list = append(list, part)
	}
	return list
}

func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, perr := strconv.Atoi(port)
	return err == nil && host != "" && perr == nil && n > 0 && n < 1<<16
}
