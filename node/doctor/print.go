package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Print writes the report for people.
func (r Report) Print(w io.Writer) {
	for _, l := range r.Lines {
		fmt.Fprintf(w, "%-5s %s: %s\n", l.Verdict, l.Name, l.Value)
		fmt.Fprintf(w, "      why  %s\n", l.Why)
		if l.Do != "" {
			fmt.Fprintf(w, "      do   %s\n", l.Do)
		}
	}
	count := map[Verdict]int{}
	for _, l := range r.Lines {
		count[l.Verdict]++
	}
	fmt.Fprintf(w, "\n%d checks: %d bad, %d warn, %d note. Nothing was changed.\n", len(r.Lines), count[Bad], count[Warn], count[Note])
}

// PrintJSON writes the report as one object.
func (r Report) PrintJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// PrintSysctl writes a file for /etc/sysctl.d: what is to be changed, each with the reason. What is well is not set, so
// that the host's own defaults go on to hold.
func (r Report) PrintSysctl(w io.Writer) {
	fmt.Fprint(w, "# For /etc/sysctl.d/90-ringmq.conf, by ringmq doctor --sysctl. Apply it with: sysctl --system\n")
	some := false
	for _, l := range r.Lines {
		if len(l.Sysctl) == 0 {
			continue
		}
		some = true
		fmt.Fprintf(w, "\n# %s is %s.\n# %s.\n", l.Name, strings.ReplaceAll(l.Value, "\n", " "), l.Why)
		for _, s := range l.Sysctl {
			fmt.Fprintf(w, "%s = %s\n", s.Key, s.Value)
		}
	}
	if !some {
		fmt.Fprint(w, "# All that the node cares for is well on this host: nothing to set.\n")
	}
}
