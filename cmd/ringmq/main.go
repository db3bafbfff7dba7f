// Command ringmq is a storage node that takes the place of a RocketMQ broker, and a small client to
// try it with. Each subcommand is a file of its name; client.go and member.go are what send and
// consume have in common with any other client.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ringmq:", err)
		stop()
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "ringmq",
		Short:         "A storage node that takes the place of a RocketMQ broker",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(serveCommand(), sendCommand(), consumeCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "ringmq", version) },
	}
}

// env returns the value of an environment variable, or what to use without it.
func env(name, without string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return without
}
