package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/store/inspect"
)

const (
	progressAfter = 2 * time.Second // shorter work shows nothing
	progressEvery = 200 * time.Millisecond
	barWidth      = 30
)

// showProgress draws a bar on a terminal while something takes long, until the returned function is
// called, which wipes it away. On anything that is no terminal it draws nothing.
func showProgress(out io.Writer, what string, p *inspect.Progress) (stop func()) {
	f, ok := stderrOf(out)
	if !ok || !isTerminal(int(f.Fd())) {
		return func() {}
	}
	after, every := time.NewTimer(progressAfter), time.NewTicker(progressEvery)
	ended, wiped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(wiped)
		drawProgress(f, what, p, after.C, every.C, ended)
	}()
	return func() {
		after.Stop()
		every.Stop()
		close(ended)
		<-wiped
	}
}

// showRecovery shows how far a start has read the log: by a bar on a terminal, else by a log line every now
// and then. stop ends it.
func showRecovery(out io.Writer, log *slog.Logger) (progress func(done, total int64), stop func()) {
	const what = "reading the log"
	if f, ok := stderrOf(out); ok && isTerminal(int(f.Fd())) {
		var p inspect.Progress
		return func(done, total int64) {
			p.Done.Store(done)
			p.Total.Store(total)
		}, showProgress(out, what, &p)
	}
	last := time.Now()
	return func(done, total int64) {
		if time.Since(last) >= progressAfter {
			last = time.Now()
			log.Info(progressLine(what, done, total))
		}
	}, func() {}
}

// drawProgress draws at each tick once begin has come, until ended is closed.
func drawProgress(out io.Writer, what string, p *inspect.Progress, begin, tick <-chan time.Time, ended <-chan struct{}) {
	select {
	case <-begin:
	case <-ended:
		return
	}
	for {
		fmt.Fprint(out, "\r\x1b[K", progressLine(what, p.Done.Load(), p.Total.Load()))
		select {
		case <-tick:
		case <-ended:
			fmt.Fprint(out, "\r\x1b[K")
			return
		}
	}
}

// progressLine is the bar as it stands. A part that is read twice counts twice, so done may exceed
// total.
func progressLine(what string, done, total int64) string {
	if total <= 0 {
		return what
	}
	part := min(float64(done)/float64(total), 1)
	full := int(part * barWidth)
	return fmt.Sprintf("%s [%s%s] %3.0f%% of %s", what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), part*100, showBytes(total))
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}
