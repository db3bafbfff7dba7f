package vfs

import (
	"sync"
	"time"
)

// Mailbox is what an Engine needs to hand completions to its writer: Post from any goroutine, Reap and
// Kick as Engine describes them.
type Mailbox struct {
	// wake holds a token when something changed since the reader last looked. It may hold one too
	// many, never one too few: who changes something changes it first and puts the token in then.
	wake chan struct{}

	// mu guards what follows. Leaf lock.
	mu     sync.Mutex
	done   []Flushed
	kicked bool
}

// NewMailbox returns an empty one.
func NewMailbox() *Mailbox {
	return &Mailbox{wake: make(chan struct{}, 1)}
}

// Post delivers a completion.
func (m *Mailbox) Post(f Flushed) {
	m.mu.Lock()
	m.done = append(m.done, f)
	m.mu.Unlock()
	m.signal()
}

// Kick is Engine.Kick.
func (m *Mailbox) Kick() {
	m.mu.Lock()
	m.kicked = true
	m.mu.Unlock()
	m.signal()
}

func (m *Mailbox) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Reap is Engine.Reap. Only a Reap that may wait takes a kick: one that just looks leaves it for the
// next that would otherwise sleep.
func (m *Mailbox) Reap(into []Flushed, wait time.Duration) []Flushed {
	var expired <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		expired = timer.C
	}
	for over := wait == 0; ; {
		m.mu.Lock()
		if len(m.done) > 0 || m.kicked || over {
			into = append(into, m.done...)
			m.done = m.done[:0]
			m.kicked = m.kicked && wait == 0
			m.mu.Unlock()
			return into
		}
		m.mu.Unlock()
		select {
		case <-m.wake:
		case <-expired:
			over = true
		}
	}
}
