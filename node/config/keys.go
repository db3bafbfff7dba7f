package config

import (
	_ "embed"
	"strings"
)

//go:embed keys.txt
var keysText string

// key is one setting.
type key struct {
	name     string
	effect   string // "used", or a key of noEffect
	standard string // the default; empty if there is none or it depends on the machine
}

const used = "used"

// keys holds all known settings by name.
var keys = parseKeys(keysText)

func parseKeys(text string) map[string]key {
	all := map[string]key{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		effect, standard, _ := strings.Cut(rest, " ")
		if standard == "-" {
			standard = ""
		}
		all[name] = key{name, effect, standard}
	}
	return all
}

// known finds a key by its name, in either spelling of "mapped": the stock names have both.
func known(name string) (key, bool) {
	for _, spelling := range []string{name, respell(name, "maped", "mapped"), respell(name, "mapped", "maped")} {
		if k, ok := keys[spelling]; ok {
			return k, true
		}
	}
	return key{}, false
}

func respell(name, from, to string) string {
	name = strings.ReplaceAll(name, from, to)
	return strings.ReplaceAll(name, upper(from), upper(to))
}

func upper(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// longestKey is about how many letters the longest key has.
const longestKey = 50

// nearest is the known key that name was probably meant to be; empty if none is near.
func nearest(name string) string {
	if len(name) > 2*longestKey {
		return ""
	}
	best, found := 1+len(name)/4, ""
	for candidate := range keys {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if d < best || d == best && found != "" && candidate < found {
			best, found = d, candidate
		}
	}
	return found
}

// distance is how many letters must be put in, taken out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
