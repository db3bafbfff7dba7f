package inspect

import "fmt"

// Level is how bad something is.
type Level uint8

// The levels; the exit code of "ringmq store verify" is the worst one's number.
const (
	OK         Level = iota // as it should be
	Repairable              // nothing that was acknowledged is missing; opening or rebuilding puts it right
	Damaged                 // bytes of the log are lost or wrong, or the store cannot be opened: a person decides
)

// String is the word that reports use.
func (l Level) String() string {
	switch l {
	case OK:
		return "ok"
	case Repairable:
		return "repairable"
	case Damaged:
		return "damaged"
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// MarshalText makes JSON show the word.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Kind says what was found about a file, in the words that scripts may compare.
type Kind string

// The kinds of findings.
const (
	Good        Kind = "ok"
	Prepared    Kind = "prepared"        // a file of the log that waits for its first record
	InUse       Kind = "in use"          // a node is writing to it
	TornTail    Kind = "torn tail"       // the newest write did not reach the disk as a whole
	Unproven    Kind = "unproven tail"   // the newest record passes the rules, but its end looks lost
	Damage      Kind = "damage"          // what was durable is no longer a record
	Behind      Kind = "behind the end"  // whole records that a cut would take away
	MissingFile Kind = "missing file"    // a file between others
	Missing     Kind = "missing entries" // the log has messages that no entry points to
	Wrong       Kind = "wrong entries"   // entries that point to something else than their message
	Beyond      Kind = "entries beyond"  // entries that point behind the log's end
	WrongLength Kind = "wrong length"    // a file that is shorter or longer than its kind
	Empty       Kind = "empty"           // a file without contents
	Broken      Kind = "broken"          // contents that cannot be parsed
	Unreadable  Kind = "unreadable"      // the disk returns an error
	Stray       Kind = "stray"           // a name that does not belong there
	NotClosed   Kind = "not closed"      // the mark of an unclean stop
	NotLooked   Kind = "not looked into" // a part of a stock broker's that this version does not know
)

// Verdict is what was found about one file or directory.
type Verdict struct {
	File  string `json:"file"` // relative to the store directory where it lies in it
	Level Level  `json:"level"`
	Kind  Kind   `json:"kind"`
	At    int64  `json:"at"`   // the place: in the log a physical offset, in a queue its offset; -1 without one
	Text  string `json:"text"` // a sentence for people
}

// verdict makes one without a place.
func verdict(file string, level Level, kind Kind, format string, args ...any) Verdict {
	return Verdict{File: file, Level: level, Kind: kind, At: -1, Text: fmt.Sprintf(format, args...)}
}

// at adds a place.
func (v Verdict) at(place int64) Verdict {
	v.At = place
	return v
}

// Report is all that Verify found.
type Report struct {
	Dir          string    `json:"dir"`
	Level        Level     `json:"level"`  // the worst of the verdicts
	Writer       string    `json:"writer"` // who worked here last: "ringmq", "a stock broker"
	Closed       bool      `json:"closed"` // there is no mark of an unclean stop
	HeldBy       string    `json:"heldBy"` // who has the directory open, "" if nobody; see Provisional
	SegmentBytes int64     `json:"segmentBytes"`
	Min          int64     `json:"min"`     // physical offset at which the log begins
	End          int64     `json:"end"`     // where it ends: at the first thing that is no record
	Records      int64     `json:"records"` // whole records, those behind End too
	Beyond       int64     `json:"beyond"`  // of these, how many stand behind End
	Queues       int       `json:"queues"`
	Entries      int64     `json:"entries"` // queue entries that lead to their message
	Verdicts     []Verdict `json:"verdicts"`
	Lost         *Loss     `json:"lost,omitempty"` // what cutting the log at End would take away
}

// Provisional reports whether a node works on the directory: what it has in memory and not in a file
// yet, such as the newest queue entries, then looks missing.
func (r *Report) Provisional() bool { return r.HeldBy != "" }

// Counts tells how many verdicts there are of each level.
func (r *Report) Counts() (counts [Damaged + 1]int) {
	for _, v := range r.Verdicts {
		counts[v.Level]++
	}
	return counts
}

// Has reports whether some verdict is of that kind.
func (r *Report) Has(kind Kind) bool {
	for _, v := range r.Verdicts {
		if v.Kind == kind {
			return true
		}
	}
	return false
}
