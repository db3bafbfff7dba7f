// Package load drives a RocketMQ-speaking broker from outside and counts what it answers. It speaks through netio/wire
// alone, and reads messages by store/record, so that it measures any broker, and so that no code of the node can flatter it.
//
//	send.go     closed loop: the next request when an answer comes
//	open.go     open loop: requests at their times, whatever comes
//	consume.go  pulls: catching up, or waiting for what arrives
//	restart.go  what a restart of the broker costs, and whether it loses anything
//	topics.go   many topics; frame.go, body.go, result.go: what they share
//
// A generator has a ceiling of its own: "ringmq bench ceiling" measures it.
package load

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"ringmq/netio/wire"
)

// Send is a closed loop of sends: each connection keeps InFlight requests under way and sends the next one when an
// answer comes. A zero field means "choose for me".
type Send struct {
	Addr     string        // host:port of the broker
	Topic    string        // created by the first send if the broker does that
	Topics   int           // names: Topic itself, or with more than one Topic-0, Topic-1 …, which must exist
	Queues   int           // of each topic
	Group    string        // producer group
	Conns    int           // connections
	InFlight int           // requests under way on each
	Bytes    int           // body of one message
	Batch    int           // messages in one request
	Level    int           // delay level of the messages, 0 for none
	RunID    uint32        // in the stamps; picked by chance if 0
	Warm     time.Duration // not counted
	For      time.Duration // counted, after Warm
	Live     *Live         // kept up, if given
}

// Fill sets defaults.
func (s *Send) Fill() {
	s.Topic = cmp.Or(s.Topic, "LoadTopic")
	s.Topics = cmp.Or(s.Topics, 1)
	s.Queues = cmp.Or(s.Queues, 8)
	s.Group = cmp.Or(s.Group, "load")
	s.Conns = cmp.Or(s.Conns, 64)
	s.InFlight = cmp.Or(s.InFlight, 16)
	s.Bytes = cmp.Or(s.Bytes, 1024)
	s.Batch = cmp.Or(s.Batch, 1)
	s.RunID = cmp.Or(s.RunID, rand.Uint32(), 1)
	s.For = cmp.Or(s.For, 5*time.Second)
	if s.Live == nil {
		s.Live = new(Live)
	}
}

// Run sends until the time is over or ctx ends, and returns the sum over all connections. A connection that breaks ends
// the run with its error.
func (s Send) Run(ctx context.Context) (Result, error) {
	s.Fill()
	span := spanOf(s.Warm, s.For)
	ctx, cancel := context.WithDeadline(ctx, span.to)
	defer cancel()
	sum := newResult()
	sum.Elapsed = s.For
	var mu sync.Mutex // guards sum
	shared := s.templates()
	err := each(ctx, s.Conns, func(ctx context.Context, id int) error {
		r, err := s.one(ctx, s.requests(shared, id), span)
		mu.Lock()
		defer mu.Unlock()
		sum.add(r)
		return err
	})
	return sum, err
}

// one runs one connection: it reads what has arrived, puts one request into the output for each answer, and writes the
// output when nothing more is buffered, as a client with a queue of callers would.
func (s Send) one(ctx context.Context, next requests, span window) (Result, error) {
	r := newResult()
	conn, hangUp, err := dial(ctx, s.Addr)
	if err != nil {
		return r, unlessOver(ctx, err)
	}
	defer hangUp()

	out := make([]byte, 0, (next.frameBytes()+64)*s.InFlight)
	began := make([]time.Time, s.InFlight) // by number: a request takes the place of the one that was answered
	now := time.Now()
	for place := range began {
		began[place] = now
		out = next.append(out, place, now)
	}
	in := frames{conn: conn, buf: make([]byte, 16<<10)}
	var scratch wire.Command
	ok, refused := int64(0), int64(0)
	for {
		if in.waits() {
			if len(out) > 0 {
				if _, err := conn.Write(out); err != nil {
					return r, unlessOver(ctx, err)
				}
				out = out[:0]
			}
			s.Live.Sent.Add(ok)
			s.Live.Refused.Add(refused)
			ok, refused, now = 0, 0, time.Time{}
		}
		frame, err := in.next()
		if err != nil {
			return r, unlessOver(ctx, err)
		}
		if now.IsZero() {
			now = time.Now() // all answers of one read came at one time
		}
		place, code, err := readAnswer(frame, &scratch)
		if err != nil {
			return r, err
		}
		if place < 0 || place >= len(began) {
			return r, errOpaque(place)
		}
		if span.holds(now) {
			r.count(code, now.Sub(began[place]), int64(s.Batch))
		}
		if code == wire.Success {
			ok += int64(s.Batch)
		} else {
			refused++
		}
		began[place] = now
		out = next.append(out, place, now)
	}
}

// TopicName is the name of the i-th topic.
func (s Send) TopicName(i int) string { return topicName(s.Topic, s.Topics, i) }

func topicName(topic string, topics, i int) string {
	if topics <= 1 {
		return topic
	}
	return fmt.Sprintf("%s-%d", topic, i)
}

// shared is what all connections of a load read.
type shared struct {
	templates []template // topic t, queue q: t*Queues + q
	noise     noise
	props     string
	bodyBytes int // of one request
}

func (s Send) templates() *shared {
	sh := &shared{noise: newNoise(s.Bytes), props: "TAGS\x01load\x02", bodyBytes: s.Bytes}
	if s.Level > 0 {
		sh.props += fmt.Sprintf("DELAY\x01%d\x02", s.Level)
	}
	code := wire.SendMessageV2
	if s.Batch > 1 {
		code, sh.bodyBytes = wire.SendBatchMessage, s.Batch*(elementBytes+s.Bytes+len(sh.props))
	}
	var cmd wire.Command
	for t := range s.Topics {
		for q := range s.Queues {
			h := wire.SendRequest{
				ProducerGroup: []byte(s.Group), Topic: []byte(s.TopicName(t)), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: int32(s.Queues),
				QueueID: int32(q), BornTimestamp: time.Now().UnixMilli(), Properties: []byte(sh.props), Batch: s.Batch > 1,
			}
			if s.Batch > 1 {
				h.Properties = nil
			}
			cmd.Recycle()
			cmd.Request(code, 0)
			h.Append(&cmd)
			sh.templates = append(sh.templates, newTemplate(&cmd, sh.bodyBytes))
		}
	}
	return sh
}

// requests makes the requests of one connection. They go round all queues of all topics; the connections begin at
// different places.
type requests struct {
	*shared
	topics, queues int
	bytes, batch   int
	stamp          Stamp // of the next message
	at             int
}

func (s Send) requests(sh *shared, id int) requests {
	return requests{
		shared: sh, topics: s.Topics, queues: s.Queues, bytes: s.Bytes, batch: s.Batch,
		stamp: Stamp{Run: s.RunID, Sender: uint32(id)},
		at:    id * 7919, // a prime: neighbours do not follow each other
	}
}

func (r *requests) frameBytes() int { return len(r.templates[0].head) + r.bodyBytes }

// elementBytes are those of a message in a batch, without body and properties.
const elementBytes = 4 + 4 + 4 + 4 + 4 + 2

// append appends the next request, whose messages should be sent at a time.
func (r *requests) append(dst []byte, number int, at time.Time) []byte {
	r.at++
	dst = r.templates[r.at%r.topics*r.queues+r.at/r.topics%r.queues].append(dst, number)
	r.stamp.At = at.UnixNano()
	if r.batch <= 1 {
		dst = r.noise.appendBody(dst, r.bytes, r.stamp)
		r.stamp.Number++
		return dst
	}
	for range r.batch { // as record.Element describes it
		dst = binary.BigEndian.AppendUint32(dst, uint32(elementBytes+r.bytes+len(r.props)))
		dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) // magic, CRC, flag
		dst = binary.BigEndian.AppendUint32(dst, uint32(r.bytes))
		dst = r.noise.appendBody(dst, r.bytes, r.stamp)
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.props)))
		dst = append(dst, r.props...)
		r.stamp.Number++
	}
	return dst
}
