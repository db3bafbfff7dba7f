package main

import (
	"cmp"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"ringmq/node/config"
	"ringmq/node/doctor"
	"ringmq/store/vfs/osfs"
)

// exitNotExamined is the exit code of a doctor that could not look; those below are its verdicts.
const exitNotExamined = 3

func doctorCommand() *cobra.Command {
	var file, data string
	var asJSON, asSysctl, noMeasure bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at this host and say what to change for a node",
		Long: "Look at this host: kernel, limits, file system, disk, memory, network. Each line has a value, a verdict, why it matters to a\n" +
			"node, and the exact change. Nothing is changed; to measure the disk a file of 64 MiB is written into the data directory and removed.\n" +
			"Run it as the user that runs the node, in the same container. The exit code is 0 if all is well, 1 for a warning, 2 if something\n" +
			"is bad, 3 if it could not look.",
		Example: "  ringmq doctor --data /srv/ringmq\n  ringmq doctor -c broker.conf --json\n  ringmq doctor --sysctl | sudo tee /etc/sysctl.d/90-ringmq.conf",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := map[string]string{}
			if data != "" {
				given["storePathRootDir"] = data
			}
			complaints := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			c, err := readConfig(file, given, complaints)
			if err != nil {
				return &exit{exitNotExamined, err}
			}
			o, err := doctorOptions(&c)
			if err != nil {
				return &exit{exitNotExamined, err}
			}
			o.NoMeasure = noMeasure || asSysctl
			host, err := doctor.Machine(cmd.Context())
			if err != nil {
				return &exit{exitNotExamined, err}
			}
			return printExamined(cmd.OutOrStdout(), doctor.Examine(host, o), asJSON, asSysctl)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "broker.conf of the node")
	f.StringVar(&data, "data", "", "directory of the data (default: that of the configuration, else $HOME/store)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	f.BoolVar(&asSysctl, "sysctl", false, "print a file for /etc/sysctl.d, and measure nothing")
	f.BoolVar(&noMeasure, "no-measure", false, "write nothing to the disk")
	cmd.MarkFlagsMutuallyExclusive("json", "sysctl")
	return cmd
}

// doctorOptions are what the doctor has to know of a node.
func doctorOptions(c *config.Config) (doctor.Options, error) {
	o := doctor.Options{
		SegmentBytes: c.SegmentBytes, FlushSync: c.FlushSync, NoRing: c.IOEngine == string(osfs.POSIX),
		Keep: c.Retention.Keep, ForcePercent: c.Retention.ForcePercent, WarnPercent: c.Retention.WarnPercent, MinFreeBytes: c.Retention.MinFreeBytes,
	}
	var err error
	if o.Dir, err = filepath.Abs(c.Dir); err != nil {
		return o, err
	}
	for _, dir := range c.CommitLogDirs {
		if dir, err = filepath.Abs(dir); err != nil {
			return o, err
		}
		if filepath.Dir(dir) != o.Dir {
			o.LogDirs = append(o.LogDirs, dir)
		}
	}
	return o, nil
}

// printExamined returns the worst verdict as exit code.
func printExamined(out io.Writer, r doctor.Report, asJSON, asSysctl bool) error {
	var err error
	switch {
	case asJSON:
		err = r.PrintJSON(out)
	case asSysctl:
		r.PrintSysctl(out)
		return nil
	default:
		r.Print(out)
	}
	if code := map[doctor.Verdict]int{doctor.Warn: 1, doctor.Bad: 2}[r.Worst]; code > 0 {
		return cmp.Or(err, error(&exit{code: code}))
	}
	return err
}
