// Command ringmq is a storage node that takes the place of a RocketMQ broker, and a small client to
// try it with. Each subcommand is a file of its name; client.go and member.go are what send and
// consume have in common with any other client.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "unknown"

func main() {
	if err := rootCommand().ExecuteContext(untilSignal()); err != nil {
		code := 1
		var e *exit
		if errors.As(err, &e) {
			code = e.code
		}
		if text := err.Error(); text != "" {
			fmt.Fprintln(os.Stderr, "ringmq:", text)
		}
		os.Exit(code)
	}
}

// untilSignal returns a context that ends with the first SIGINT or SIGTERM, so that the command finishes what it
// owes. Whoever sends a second one has waited for that long enough: it ends the process at once.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		second := <-signals
		fmt.Fprintf(os.Stderr, "ringmq: %v a second time: ended at once, what was not finished is left to the next start\n", second)
		os.Exit(128 + int(second.(syscall.Signal)))
	}()
	return ctx
}

// exit ends the process with a code that tells a script more than that something failed.
type exit struct {
	code int
	err  error // nil when all was said already
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "ringmq",
		Short:         "A storage node that takes the place of a RocketMQ broker",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(serveCommand(), sendCommand(), consumeCommand(), storeCommand(), benchCommand(), doctorCommand(), versionCommand())
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
