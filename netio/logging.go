package netio

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// complaints writes at most one line per second about what keeps coming, such as what strangers do, and says how many it
// left out: a scanner must not fill the log. Any goroutine.
type complaints struct {
	log *slog.Logger

	mu      sync.Mutex // guards what follows; leaf
	next    time.Duration
	spoken  bool
	leftOut int
}

// say logs the line or counts it. now is the server's clock.
func (c *complaints) say(now time.Duration, msg string, args ...any) {
	c.mu.Lock()
	if c.spoken && now < c.next {
		c.leftOut++
		c.mu.Unlock()
		return
	}
	leftOut := c.leftOut
	c.spoken, c.next, c.leftOut = true, now+time.Second, 0
	c.mu.Unlock()
	if leftOut > 0 {
		args = append(args, "similar_left_out", leftOut)
	}
	c.log.Warn(msg, args...)
}

// gnetLogger sends the lines of gnet to slog. What gnet calls information is of no use to an
// operator, and its warnings are about events that the kernel delivered late: both go to debug.
type gnetLogger struct{ log *slog.Logger }

func (g gnetLogger) Debugf(format string, args ...any) { g.line(slog.LevelDebug, format, args) }
func (g gnetLogger) Infof(format string, args ...any)  { g.line(slog.LevelDebug, format, args) }
func (g gnetLogger) Warnf(format string, args ...any)  { g.line(slog.LevelDebug, format, args) }
func (g gnetLogger) Errorf(format string, args ...any) { g.line(slog.LevelError, format, args) }
func (g gnetLogger) Fatalf(format string, args ...any) { g.line(slog.LevelError, format, args) }

func (g gnetLogger) line(level slog.Level, format string, args []any) {
	if g.log.Enabled(context.Background(), level) {
		g.log.Log(context.Background(), level, "gnet: "+fmt.Sprintf(format, args...))
	}
}
