package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ringmq/node"
	"ringmq/node/config"
	"ringmq/store/vfs/osfs"
)

// stopWait is how long a node may take to finish what it owes.
const stopWait = 10 * time.Second

// serveFlags are the settings that people change by hand; each is a key of broker.conf.
var serveFlags = []struct{ flag, key, usage string }{
	{"data", "storePathRootDir", "directory of the data (default $HOME/store)"},
	{"listen", "listenPort", "port of the broker (default 10911)"},
	{"namesrv-listen", "namesrvListenPort", "port of the embedded name server; 0 is off (default 9876, off with --namesrv)"},
	{"namesrv", "namesrvAddr", "name servers elsewhere to register with, host:port;host:port"},
	{"advertise", "advertise", "address that clients are given (default: one of this machine's)"},
	{"name", "brokerName", "name of the broker (default: the host's)"},
	{"admin", "adminListen", "address for /metrics, /healthz, /readyz; empty is off (default 127.0.0.1:10980)"},
	{"flush", "flushDiskType", "SYNC_FLUSH or ASYNC_FLUSH (default SYNC_FLUSH)"},
}

func serveCommand() *cobra.Command {
	var file, level string
	values := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node: broker and name server",
		Long: "Run a node. Settings come from the flags below, then from the environment (RINGMQ_DATA, RINGMQ_LISTEN_PORT, …),\n" +
			"then from a broker.conf with the keys of the stock broker.",
		Example: "  ringmq serve --data ./data\n  ringmq serve -c broker.conf",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := map[string]string{}
			for _, f := range serveFlags {
				if cmd.Flags().Changed(f.flag) {
					given[f.key] = *values[f.flag]
				}
			}
			var at slog.Level
			if err := at.UnmarshalText([]byte(level)); err != nil {
				return fmt.Errorf("--log %s: want debug, info, warn or error", level)
			}
			// Whoever reads our output may go away, as a pager or a restarted journal does. That is no reason to die
			// in the middle of a line: what cannot be written is lost, and the node goes on.
			signal.Ignore(syscall.SIGPIPE)
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: at}))
			return serve(cmd.Context(), file, given, log, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "broker.conf")
	cmd.Flags().StringVar(&level, "log", env("RINGMQ_LOG", "info"), "least level of log lines: debug, info, warn, error")
	for _, f := range serveFlags {
		values[f.flag] = cmd.Flags().String(f.flag, "", f.usage)
	}
	return cmd
}

// serve runs a node until ctx ends.
func serve(ctx context.Context, file string, given map[string]string, log *slog.Logger, out, complaints io.Writer) error {
	c, err := readConfig(file, given, log)
	if err != nil {
		return err
	}
	begun := time.Now()
	progress, told := showRecovery(complaints, log)
	n, err := node.Start(node.Options{Config: c, FS: osfs.New(osfs.Options{IOEngine: osfs.IOEngine(c.IOEngine), Log: log}), Log: log, Progress: progress})
	told()
	if err != nil {
		return fmt.Errorf("cannot start:\n%w", err)
	}
	printServing(out, &c, n, time.Since(begun))
	<-ctx.Done()
	fmt.Fprintln(out, "stopping")
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		return fmt.Errorf("while stopping: %w", err)
	}
	fmt.Fprintln(out, "stopped: everything is on the disk")
	return nil
}

// readConfig reads the file, if any, and complains about everything in it at once.
func readConfig(file string, given map[string]string, log *slog.Logger) (config.Config, error) {
	var text []byte
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return config.Config{}, fmt.Errorf("cannot read the configuration: %w", err)
		}
	}
	c, warnings, err := config.Parse(text, config.Machine(), given)
	for _, w := range warnings {
		log.Warn("config: " + w.String())
	}
	if err != nil {
		return c, fmt.Errorf("the configuration cannot be used:\n%w", err)
	}
	return c, nil
}

// printServing tells in one screen what there is and what to type next.
func printServing(out io.Writer, c *config.Config, n *node.Node, took time.Duration) {
	flush := "acknowledged means on the disk (SYNC_FLUSH)"
	if !c.FlushSync {
		flush = "acknowledged means handed to the kernel (ASYNC_FLUSH)"
	}
	fmt.Fprintf(out, "ringmq %s serves, after %v\n\n", version, took.Round(time.Millisecond))
	row := func(what, where string) { fmt.Fprintf(out, "  %-13s %s\n", what, where) }
	row("broker", fmt.Sprintf("%s, clients are given %s (%s of cluster %s)", strings.Join(c.Listen, " and "), c.Advertise, c.Broker, c.Cluster))
	namesrv := strings.Join(c.Namesrvs, ";")
	if c.NamesrvListen != "" {
		row("name server", c.NamesrvListen)
		addr, _ := n.NamesrvAddr()
		namesrv = fmt.Sprintf("127.0.0.1:%d", addr.Port())
	}
	if len(c.Namesrvs) > 0 {
		row("registers at", strings.Join(c.Namesrvs, " "))
	}
	if addr := n.AdminAddr(); addr != "" {
		row("admin", fmt.Sprintf("http://%s/metrics /healthz /readyz", addr))
	}
	row("data", c.Dir+", "+flush)
	if namesrv == "" {
		return
	}
	option := ""
	if namesrv != "127.0.0.1:9876" {
		option = " --namesrv '" + namesrv + "'"
	}
	self := os.Args[0]
	fmt.Fprintf(out, "\nSend and read a message from another terminal:\n\n"+
		"  %s send --topic Hello%s \"first message\"\n"+
		"  %s consume --topic Hello --group readers --from first --count 1%s\n\n", self, option, self, option)
}
