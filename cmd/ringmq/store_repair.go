package main

import (
	"fmt"
	"io"
	"path"

	"github.com/spf13/cobra"

	"ringmq/store/inspect"
)

func repairCommand() *cobra.Command {
	var p storePlace
	var yes bool
	cmd := &cobra.Command{
		Use:   "repair DIR",
		Short: "Cut a damaged log at the damage, after saying what that loses",
		Long: "Say exactly what cutting the log at its damage would lose, and with --yes do it: what follows the damage is copied\n" +
			"to DIR/cut, cut from the log, and the queues are made anew. Without --yes nothing is changed. The node must be\n" +
			"stopped.",
		Example: "  ringmq store repair ./data\n  ringmq store repair --yes ./data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.clean(args)
			out := cmd.OutOrStdout()
			r, err := verifyPlace(cmd.Context(), p, cmd.ErrOrStderr())
			if err != nil {
				return lookFailed(err)
			}
			if r.Provisional() {
				return lookFailed(fmt.Errorf("%s is held by %s: stop it first", p.dir, r.HeldBy))
			}
			if !cutHelps(r) {
				fmt.Fprintf(out, "%s\nThe log has no damage that a cut would end. %s\n", summary(r), nextStep(r, p))
				if r.Level != inspect.OK {
					return &exit{code: int(r.Level)}
				}
				return nil
			}
			printLoss(out, r, p)
			if !yes {
				fmt.Fprintf(out, "\nNothing was changed. Messages behind the damage can be read by: %s --from %d\nTo cut: %s --yes\n", p.command("dump"), r.End, p.command("repair"))
				return &exit{code: exitDamaged}
			}
			return rebuild(cmd, p, 0)
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

// printLoss says what cutting the log at its end takes away.
func printLoss(out io.Writer, r *inspect.Report, p storePlace) {
	for _, v := range r.Verdicts {
		if v.Kind == inspect.Damage {
			fmt.Fprintf(out, "%s at %d: %s\n", v.File, v.At, v.Text)
		}
	}
	l := r.Lost
	if l == nil {
		fmt.Fprintf(out, "\nThe log would end at %d. No whole message stands behind that place; those that were there are lost already.\n", r.End)
		return
	}
	fmt.Fprintf(out, "\nThe log would be cut at %d. That loses %d whole messages (%s, bad places: %d),\nstored from %s to %s:\n\n",
		r.End, l.Records, showBytes(l.Bytes), l.Gaps, showTime(l.FirstMs), showTime(l.LastMs))
	fmt.Fprintf(out, "  %10s  %-21s  %s\n", "messages", "queue offsets", "queue")
	for _, q := range l.Queues {
		fmt.Fprintf(out, "  %10d  %-21s  %q/%d\n", q.Count, fmt.Sprintf("%d to %d", q.First, q.Last), q.Topic, q.QueueID)
	}
	fmt.Fprintf(out, "\nA copy of all that is cut goes to %s.\n", path.Join(p.dir, "cut", fmt.Sprintf("%020d.N", r.End)))
}
