package main

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"
)

// lower are the figures of which less is better.
func lower(name string) bool {
	return strings.HasSuffix(name, "_us") || strings.HasSuffix(name, "_mib") || name == "ms" || name == "device_bytes" || name == "refused"
}

// compared is the part of the page about an earlier run: what has changed, and what may be chance. The samples are the rounds;
// nothing is assumed of how they are spread (a Mann-Whitney test, as benchstat does).
func (r *run) compared(base *run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Beside the baseline of %s\n\n", base.Began.Format("2006-01-02 15:04 MST"))
	if base.Host != r.Host {
		fmt.Fprintf(&b, "**Another machine**: %s. Nothing below means anything.\n\n", base.Host)
	}
	var keys []key
	for k := range r.values {
		if len(base.values[k]) > 0 && !strings.HasPrefix(k.name, "late_") {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return strings.Compare(a.subject+"\x00"+a.work+"\x00"+a.name, b.subject+"\x00"+b.work+"\x00"+b.name)
	})
	b.WriteString("| Figure | Before | Now | Verdict |\n|---|---|---|---|\n")
	noise := 0
	for _, k := range keys {
		before, now := base.of(k), r.of(k)
		verdict, differs := judge(before, now, lower(k.name))
		if !differs {
			noise++
			continue
		}
		fmt.Fprintf(&b, "| %s %s %s | %s | %s | %s |\n", k.subject, k.work, k.name, spread(before), spread(now), verdict)
	}
	fmt.Fprintf(&b, "\nOf %d figures %d are within the noise: with this few rounds their difference may be chance.\n", len(keys), noise)
	if least := min(base.Rounds, r.Rounds); least < 4 {
		fmt.Fprintf(&b, "%d round(s) cannot show any difference: at least four of each are needed.\n", least)
	}
	return b.String()
}

// judge tells whether two samples differ by more than chance, and in which direction.
func judge(before, now []float64, lower bool) (verdict string, differs bool) {
	t := benchmath.DefaultThresholds
	c := benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(before), &t), benchmath.NewSample(slices.Clone(now), &t))
	if c.P >= c.Alpha || len(before) < 4 || len(now) < 4 {
		return "within noise", false
	}
	was, is := median(before), median(now)
	better := is > was
	if lower {
		better = is < was
	}
	word := map[bool]string{true: "better", false: "worse"}[better]
	if was == 0 {
		return word, true
	}
	return fmt.Sprintf("%s, %+.0f %% (p=%.3f)", word, (is/was-1)*100, c.P), true
}
