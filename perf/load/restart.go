package load

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"ringmq/netio/wire"
)

// Restart sends while somebody restarts the broker: each connection dials again when it breaks. Afterwards all is read
// back, and each message that was acknowledged must be there.
type Restart struct {
	Send
	Redial time.Duration // pause between two tries (5 ms)
}

// Restarted is what came of it.
type Restarted struct {
	Acked     int64
	Refused   map[wire.Code]int64
	Broken    int64         // connections that broke
	Away      time.Duration // the longest time without any acknowledgement
	Found     int64         // messages of this run that were read back
	Lost      int64         // acknowledged and not found
	Twice     int64         // found more than once
	Unasked   int64         // found without an acknowledgement: sent when the connection broke
	Wrong     int64         // not what was sent
	FirstLost string        // one of the lost
}

// Run sends for the time of the Send and reads back. The broker must be up at the end.
func (s Restart) Run(ctx context.Context) (Restarted, error) {
	s.Conns = cmp.Or(s.Conns, 16)
	s.InFlight, s.Batch = 1, 1
	s.Fill()
	s.Redial = cmp.Or(s.Redial, 5*time.Millisecond)
	if s.Bytes < StampBytes {
		return Restarted{}, fmt.Errorf("load: messages of %d bytes cannot be told apart: want %d", s.Bytes, StampBytes)
	}
	t := tally{acked: make([]map[uint64]bool, s.Conns), last: time.Now(), sum: Restarted{Refused: map[wire.Code]int64{}}}
	sending, cancel := context.WithTimeout(ctx, s.For)
	shared := s.templates()
	err := each(sending, s.Conns, func(ctx context.Context, id int) error {
		t.acked[id] = map[uint64]bool{}
		s.one(ctx, s.requests(shared, id), id, &t)
		return nil
	})
	cancel()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return t.sum, err
	}
	t.pause(time.Now())
	return s.readBack(ctx, &t)
}

// tally is what all connections add to.
type tally struct {
	acked []map[uint64]bool // by sender: numbers, true when found; each touched by its connection only

	mu   sync.Mutex // guards what follows
	last time.Time  // of the newest acknowledgement
	sum  Restarted
}

// pause ends the time without an acknowledgement. mu is held, or nobody else runs.
func (t *tally) pause(now time.Time) {
	t.sum.Away = max(t.sum.Away, now.Sub(t.last))
	t.last = now
}

func (t *tally) answered(code wire.Code, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if code != wire.Success {
		t.sum.Refused[code]++
		return
	}
	t.sum.Acked++
	t.pause(now)
}

// one sends, one message at a time, and connects again, until ctx ends.
func (s Restart) one(ctx context.Context, next requests, id int, t *tally) {
	for ctx.Err() == nil {
		if err := s.connected(ctx, &next, id, t); err != nil && ctx.Err() == nil {
			t.mu.Lock()
			t.sum.Broken++
			t.mu.Unlock()
		}
		select {
		case <-time.After(s.Redial):
		case <-ctx.Done():
		}
	}
}

func (s Restart) connected(ctx context.Context, next *requests, id int, t *tally) error {
	conn, hangUp, err := dial(ctx, s.Addr)
	if err != nil {
		return nil // it is away: this connection did not break
	}
	defer hangUp()
	in := frames{conn: conn, buf: make([]byte, 4<<10)}
	var scratch wire.Command
	var out []byte
	for {
		number := next.stamp.Number
		out = next.append(out[:0], 0, time.Now())
		if _, err := conn.Write(out); err != nil {
			return err
		}
		frame, err := in.next()
		if err != nil {
			return err
		}
		_, code, err := readAnswer(frame, &scratch)
		if err != nil {
			return err
		}
		if t.answered(code, time.Now()); code == wire.Success {
			t.acked[id][number] = false
			s.Live.Sent.Add(1)
		} else {
			s.Live.Refused.Add(1)
		}
	}
}

// readBack reads all queues of the topic from their first message to their last.
func (s Restart) readBack(ctx context.Context, t *tally) (Restarted, error) {
	sum := t.sum
	seen := make([]map[uint64]bool, s.Conns)
	var mu sync.Mutex // guards seen, sum and t.acked
	c := Consume{
		Addr: s.Addr, Topic: s.Topic, Topics: s.Topics, Queues: s.Queues, Mode: Once, RunID: s.RunID, For: 10 * time.Minute, Live: s.Live,
		OnMessage: func(_ int, m Stamp) {
			mu.Lock()
			defer mu.Unlock()
			if int(m.Sender) >= len(seen) {
				return
			}
			if seen[m.Sender] == nil {
				seen[m.Sender] = map[uint64]bool{}
			}
			if seen[m.Sender][m.Number] {
				sum.Twice++
				return
			}
			seen[m.Sender][m.Number] = true
			sum.Found++
			if _, acked := t.acked[m.Sender][m.Number]; acked {
				t.acked[m.Sender][m.Number] = true
			} else {
				sum.Unasked++
			}
		},
	}
	got, err := c.Run(ctx)
	sum.Wrong = got.Wrong
	if err != nil {
		return sum, fmt.Errorf("read back: %w", err)
	}
	for sender, numbers := range t.acked {
		for number, found := range numbers {
			if !found {
				sum.Lost++
				sum.FirstLost = fmt.Sprintf("message %d of sender %d", number, sender)
			}
		}
	}
	return sum, nil
}
