package floor

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"

	"github.com/panjf2000/gnet/v2"
)

// Server is the bare loop of a node: gnet takes frames off its connections, and each is answered as a success. There is
// no topic, no queue, no check and no bound. With a log the bodies of all frames that came in while the disk was busy
// are written by one pwrite and made durable by one fdatasync before they are answered (group commit at depth one);
// without one the answers go out at once.
type Server struct {
	gnet.BuiltinEventEngine
	log    *prepared // nil: no disk
	engine gnet.Engine

	// mu guards what follows.
	mu      sync.Mutex
	work    sync.Cond // staged is not empty, or ended
	staged  []byte    // frames that are not written yet
	waiting []pending // their connections
	ended   bool
	failure error
	up      chan struct{} // closed when it listens
}

// pending is what a connection is owed: answers to requests, ready to be sent.
type pending struct {
	conn    gnet.Conn
	answers []byte
}

// NewServer prepares a file of logBytes in dir, or none if dir is empty.
func NewServer(dir string, logBytes int64) (*Server, error) {
	s := &Server{up: make(chan struct{})}
	s.work.L = &s.mu
	if dir == "" {
		return s, nil
	}
	var err error
	s.log, err = newPrepared(dir, logBytes)
	return s, err
}

// Run serves host:port with as many loops until Stop.
func (s *Server) Run(addr string, loops int) error {
	var writer sync.WaitGroup
	if s.log != nil {
		defer s.log.close()
		writer.Go(s.write)
	}
	err := gnet.Run(s, "tcp://"+addr, gnet.WithNumEventLoop(loops), gnet.WithTCPNoDelay(gnet.TCPNoDelay), gnet.WithReuseAddr(true))
	s.end(nil)
	writer.Wait()
	if s.failure != nil {
		return s.failure
	}
	return err
}

// Up is closed once the server listens.
func (s *Server) Up() <-chan struct{} { return s.up }

// Stop ends Run.
func (s *Server) Stop() { s.end(nil) }

// OnBoot is called by gnet when it listens.
func (s *Server) OnBoot(e gnet.Engine) gnet.Action {
	s.engine = e
	close(s.up)
	return gnet.None
}

// OnTraffic is called by gnet, on the loop of a connection, with new bytes.
func (s *Server) OnTraffic(c gnet.Conn) gnet.Action {
	in, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	n, answers, err := answerFrames(in)
	switch {
	case err != nil:
		return gnet.Close
	case n == 0:
		return gnet.None // Discard(0) would drop all of it
	case s.log == nil:
		_, err = c.Write(answers)
	default:
		s.stage(in[:n], pending{c, answers})
	}
	if _, dropped := c.Discard(n); dropped != nil || err != nil {
		return gnet.Close
	}
	return gnet.None
}

// answerFrames returns the length of the whole frames in, and the answers to them.
func answerFrames(in []byte) (n int, answers []byte, err error) {
	for len(in)-n >= 8 {
		size := int(binary.BigEndian.Uint32(in[n:])) + 4
		head := int(binary.BigEndian.Uint32(in[n+4:]) & 0xFFFFFF)
		if size < 8 || size > 16<<20 || head > size-8 {
			return 0, nil, fmt.Errorf("floor: frame of %d bytes with a header of %d", size, head)
		}
		if len(in)-n < size {
			break
		}
		if answers, err = appendAnswer(answers, in[n+8:n+8+head]); err != nil {
			return 0, nil, err
		}
		n += size
	}
	return n, answers, nil
}

// appendAnswer appends a frame with the opaque of a JSON header and as many fields as an answer to a send has.
func appendAnswer(dst, header []byte) ([]byte, error) {
	const key = `"opaque":`
	at := bytes.Index(header, []byte(key))
	if at < 0 {
		return dst, fmt.Errorf("floor: header without opaque: %.100q", header)
	}
	digits := header[at+len(key):]
	n := bytes.IndexAny(digits, ",}")
	opaque, err := strconv.ParseInt(string(digits[:max(n, 0)]), 10, 32)
	if err != nil {
		return dst, fmt.Errorf("floor: opaque: %w", err)
	}
	from := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = append(dst, `{"code":0,"flag":1,"language":"GO","opaque":`...)
	dst = strconv.AppendInt(dst, opaque, 10)
	dst = append(dst, `,"serializeTypeCurrentRPC":"JSON","version":0,"extFields":{"msgId":"7F00000100002A9F0000000000000000","queueId":"0","queueOffset":"0"}}`...)
	binary.BigEndian.PutUint32(dst[from:], uint32(len(dst)-from-4))
	binary.BigEndian.PutUint32(dst[from+4:], uint32(len(dst)-from-8))
	return dst, nil
}

// stage leaves frames to the writer. frames is copied.
func (s *Server) stage(frames []byte, p pending) {
	s.mu.Lock()
	s.staged = append(s.staged, frames...)
	s.waiting = append(s.waiting, p)
	s.mu.Unlock()
	s.work.Signal()
}

// write makes durable what was staged, all of it at a time, and hands the answers to the loops.
func (s *Server) write() {
	var frames []byte
	var done []pending
	for {
		s.mu.Lock()
		for len(s.staged) == 0 && !s.ended {
			s.work.Wait()
		}
		if s.ended {
			s.mu.Unlock()
			return
		}
		frames, s.staged = s.staged, frames[:0]
		done, s.waiting = s.waiting, done[:0]
		s.mu.Unlock()
		if err := s.log.append(frames); err != nil {
			s.end(err)
			return
		}
		for _, p := range done {
			if err := p.conn.AsyncWrite(p.answers, nil); err != nil {
				continue // closed meanwhile: nobody waits for it
			}
		}
		clear(done)
	}
}

func (s *Server) end(err error) {
	s.mu.Lock()
	first := !s.ended
	s.ended = true
	if s.failure == nil {
		s.failure = err
	}
	s.mu.Unlock()
	s.work.Signal()
	if first {
		_ = s.engine.Stop(context.Background()) // an error says that it has stopped already, or never began
	}
}
