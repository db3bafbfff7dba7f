package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ringmq/store/inspect"
	"ringmq/store/vfs"
	"ringmq/store/vfs/osfs"
)

// Exit codes of the store commands; the first three are the levels of a report.
const (
	exitClean      = int(inspect.OK)
	exitRepairable = int(inspect.Repairable)
	exitDamaged    = int(inspect.Damaged)
	exitNotLooked  = 3
)

func storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look at a store directory, and put it right",
		Long: "Look at a store directory, of ringmq or of a stock broker, and put it right. verify and dump only read, also\n" +
			"beside a running node or on a read-only disk; rebuild and repair change the directory and want it for themselves.",
	}
	cmd.AddCommand(verifyCommand(), dumpCommand(), rebuildCommand(), repairCommand())
	return cmd
}

// storePlace is where a store is: the flags and the argument that all commands take.
type storePlace struct {
	dir       string
	logs      []string
	fixedLogs []string // of them, those that new files do not go to
}

func (p *storePlace) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&p.logs, "commitlog", nil, "directories of the log, if not DIR/commitlog (storePathCommitLog)")
	cmd.Flags().StringSliceVar(&p.fixedLogs, "commitlog-readonly", nil, "directories of the log that new files do not go to (readOnlyCommitLogStorePaths)")
}

// clean takes the directory that was given; one slash at its end or several mean nothing.
func (p *storePlace) clean(args []string) {
	p.dir = args[0]
	for len(p.dir) > 1 && strings.HasSuffix(p.dir, "/") {
		p.dir = strings.TrimSuffix(p.dir, "/")
	}
}

// command is how to say where the store is to another of the commands.
func (p *storePlace) command(name string) string {
	line := "ringmq store " + name + " " + p.dir
	if len(p.logs) > 0 {
		line += " --commitlog " + strings.Join(p.logs, ",")
	}
	if len(p.fixedLogs) > 0 {
		line += " --commitlog-readonly " + strings.Join(p.fixedLogs, ",")
	}
	return line
}

// disk is the machine's file system; what the store logs goes to complaints.
func disk(complaints io.Writer) (vfs.FS, *slog.Logger) {
	log := slog.New(slog.NewTextHandler(complaints, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return osfs.New(osfs.Options{Log: log}), log
}

// inspected is the store as something to look at.
func (p *storePlace) inspected(progress *inspect.Progress) inspect.Options {
	o := inspect.Options{Dir: p.dir, CommitLogDirs: slices.Clone(p.logs), Progress: progress}
	if len(o.CommitLogDirs) == 0 && len(p.fixedLogs) > 0 {
		o.CommitLogDirs = []string{path.Join(p.dir, "commitlog")}
	}
	for _, dir := range p.fixedLogs {
		if !slices.Contains(o.CommitLogDirs, dir) {
			o.CommitLogDirs = append(o.CommitLogDirs, dir)
		}
	}
	return o
}

// verifyPlace looks at a store, with a progress bar on complaints if that is a terminal.
func verifyPlace(ctx context.Context, p storePlace, complaints io.Writer) (*inspect.Report, error) {
	fsys, _ := disk(complaints)
	progress := new(inspect.Progress)
	d, err := inspect.Open(fsys, p.inspected(progress))
	if err != nil {
		return nil, err
	}
	stop := showProgress(complaints, "verifying", progress)
	defer stop()
	return d.Verify(ctx)
}

// lookFailed is the error of a command that could not look at a store.
func lookFailed(err error) error { return &exit{exitNotLooked, err} }

// showTime is how times of messages are shown.
func showTime(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02T15:04:05.000Z07:00") }

// stderrOf is complaints if it is a file, for terminal control.
func stderrOf(complaints io.Writer) (*os.File, bool) {
	f, ok := complaints.(*os.File)
	return f, ok
}

// showBytes is a number of bytes for people.
func showBytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
