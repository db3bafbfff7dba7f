package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"ringmq/store"
	"ringmq/store/inspect"
)

func rebuildCommand() *cobra.Command {
	var p storePlace
	var yes bool
	var queueFileBytes int64
	cmd := &cobra.Command{
		Use:   "rebuild DIR",
		Short: "Make the queues and the checkpoint anew from the log",
		Long: "Remove what can be made from the log, queues and checkpoint, and make it anew. No message is lost. The node must\n" +
			"be stopped. A damaged log is refused: see repair.",
		Example: "  ringmq store rebuild ./data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.clean(args)
			r, err := verifyPlace(cmd.Context(), p, cmd.ErrOrStderr())
			if err != nil {
				return lookFailed(err)
			}
			if err := mayRebuild(r, p); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s\n\nThis removes %s/consumequeue and the checkpoint, and makes them anew from %d records.\n", summary(r), p.dir, r.Records)
			if n := lightQueues(r); n > 0 {
				fmt.Fprintf(out, "ringmq does not make the files of light queues (%%LMQ%%): those %d are removed only; a stock broker makes them.\n", n)
			}
			if !yes && !confirmed(cmd.InOrStdin(), out) {
				return &exit{int(r.Level), errors.New("nothing was changed")}
			}
			return rebuild(cmd, p, queueFileBytes)
		},
	}
	p.flags(cmd)
	cmd.Flags().Int64Var(&queueFileBytes, "queue-file-bytes", 0, "size of the new queue files (mappedFileSizeConsumeQueue); default: as the old ones")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// mayRebuild refuses what must be put right first.
func mayRebuild(r *inspect.Report, p storePlace) error {
	switch {
	case r.Provisional():
		return lookFailed(fmt.Errorf("%s is held by %s: stop it first", p.dir, r.HeldBy))
	case r.Level == inspect.Damaged:
		return &exit{exitDamaged, fmt.Errorf("%s is damaged, and rebuilding would not bring back what is lost: first %s", p.dir, p.command("verify --quiet"))}
	}
	return nil
}

// lightQueues counts files of light queues.
func lightQueues(r *inspect.Report) (n int) {
	for _, v := range r.Verdicts {
		if strings.HasPrefix(v.File, "consumequeue/%LMQ%") {
			n++
		}
	}
	return n
}

// confirmed asks, and takes only a plain yes.
func confirmed(in io.Reader, out io.Writer) bool {
	fmt.Fprint(out, "Go on? Type yes: ")
	line, _ := bufio.NewReader(in).ReadString('\n') // the end of the input is a no
	return strings.TrimSpace(line) == "yes"
}

// rebuild does it, and looks at the result. Damage is cut: who calls has asked about it. queueFileBytes 0 takes the size that the directory has.
func rebuild(cmd *cobra.Command, p storePlace, queueFileBytes int64) error {
	fsys, log := disk(cmd.ErrOrStderr())
	o := store.Options{Dir: p.dir, CommitLogDirs: p.logs, ReadOnlyLogDirs: p.fixedLogs, QueueFileBytes: queueFileBytes, OnDamage: store.CutOnDamage, Log: log}
	done, err := store.Rebuild(fsys, o)
	if err != nil {
		return lookFailed(err)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%d records were put into their queues; the log ends at %d.\n", done.Records, done.End)
	if done.CutFile != "" {
		fmt.Fprintf(out, "%d bytes were cut from the log, and are kept in %s.\n", done.CutBytes, done.CutFile)
	}
	r, err := verifyPlace(cmd.Context(), p, cmd.ErrOrStderr())
	if err != nil {
		return lookFailed(err)
	}
	if r.Level != inspect.OK {
		return &exit{int(r.Level), errors.Join(printReport(out, r, p, true), errors.New("not all is well yet"))}
	}
	fmt.Fprintln(out, "All is well.")
	return nil
}
