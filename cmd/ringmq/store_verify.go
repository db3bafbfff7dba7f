package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"ringmq/store/inspect"
)

func verifyCommand() *cobra.Command {
	var p storePlace
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every file of a store, read-only",
		Long: "Check every file of a store without changing a byte, and give a verdict on each. The exit code is 0 if all is\n" +
			"well, 1 if opening or rebuilding puts it right without a loss, 2 if something is damaged, 3 if the directory\n" +
			"cannot be looked at. Beside a running node the newest part may look unfinished.",
		Example: "  ringmq store verify ./data\n  ringmq store verify --json ./data | jq '.verdicts[] | select(.level != \"ok\")'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.clean(args)
			r, err := verifyPlace(cmd.Context(), p, cmd.ErrOrStderr())
			if err != nil {
				return lookFailed(err)
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), r)
			} else {
				err = printReport(cmd.OutOrStdout(), r, p, quiet)
			}
			if err != nil {
				return lookFailed(err)
			}
			if r.Level != inspect.OK {
				return &exit{code: int(r.Level)}
			}
			return nil
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "leave out the files with which all is well")
	return cmd
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printReport prints a line for each verdict, then what they come to and what to do.
func printReport(out io.Writer, r *inspect.Report, p storePlace, quiet bool) error {
	var b strings.Builder
	for _, v := range r.Verdicts {
		if quiet && v.Level == inspect.OK {
			continue
		}
		place := v.File
		if v.At >= 0 && v.Level != inspect.OK {
			place = fmt.Sprintf("%s at %d", v.File, v.At)
		}
		fmt.Fprintf(&b, "%-10v  %s: ", v.Level, place)
		if v.Kind != inspect.Good {
			fmt.Fprintf(&b, "%s: ", v.Kind)
		}
		b.WriteString(v.Text + "\n")
	}
	b.WriteString("\n" + summary(r) + "\n" + nextStep(r, p) + "\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func summary(r *inspect.Report) string {
	counts := r.Counts()
	closed := "closed cleanly"
	switch {
	case r.Provisional():
		closed = "open, held by " + r.HeldBy
	case !r.Closed:
		closed = "not closed"
	}
	s := fmt.Sprintf("%s: last written by %s, %s\n", r.Dir, r.Writer, closed)
	s += fmt.Sprintf("log from %d to %d, %d records in files of %s; %d queues, %d entries that lead to their message\n",
		r.Min, r.End, r.Records, showBytes(r.SegmentBytes), r.Queues, r.Entries)
	return s + fmt.Sprintf("%d ok, %d repairable, %d damaged", counts[inspect.OK], counts[inspect.Repairable], counts[inspect.Damaged])
}

// nextStep says what to type.
func nextStep(r *inspect.Report, p storePlace) string {
	switch {
	case r.Level == inspect.OK:
		return "Nothing to do."
	case r.Provisional():
		return "A node works here, so the newest part may only look unfinished. Stop it, then: " + p.command("verify")
	case cutHelps(r):
		return "See what cutting the log at the damage would lose; nothing is changed by: " + p.command("repair")
	case r.Level == inspect.Damaged:
		return "What is damaged must be restored or moved away by hand, as its lines say. Then: " + p.command("verify")
	case r.NeedsRebuild():
		return "Nothing is lost. Make the queues anew: " + p.command("rebuild")
	}
	return "Nothing is lost. Start the node: opening the directory puts it right."
}

// cutHelps reports whether the log is damaged, and in no other way than one that a cut ends.
func cutHelps(r *inspect.Report) bool {
	cut := false
	for _, v := range r.Verdicts {
		if v.Level != inspect.Damaged {
			continue
		}
		switch v.Kind {
		case inspect.Damage, inspect.Behind:
			cut = true
		default:
			return false
		}
	}
	return cut
}
