package netio

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"

	"ringmq/netio/wire"
	"ringmq/uring"
)

// owner counts the uses of its memory, and spoils each piece when its use ends: bytes that were still to go out would be seen.
type owner struct {
	uses *atomic.Int64
	mem  []byte
}

func (o *owner) Release() {
	clear(o.mem)
	o.uses.Add(-1)
}

func lend(uses *atomic.Int64, from []byte) uring.MemRange {
	uses.Add(1)
	o := &owner{uses, bytes.Clone(from)}
	return uring.MemRange{Bytes: o.mem, Owner: o}
}

// sendMem answers with pieces of memory of all sizes, between plain answers.
func sendMem(uses *atomic.Int64, content []byte) func(c *Conn, req *wire.Command) Verdict {
	return func(c *Conn, req *wire.Command) Verdict {
		var body []uring.MemRange
		for at, n := 0, 0; at < len(content); at, n = at+n, 1+3*n%70_000 {
			body = append(body, lend(uses, content[at:min(at+n, len(content))]))
		}
		c.SendMem(answer(req, wire.Success), append(body, lend(uses, nil)))
		c.Send(answer(req, wire.SystemBusy))
		return Done
	}
}

// TestSendMem: memory of somebody else goes out as it is, in its order, to a reader that takes its time, and each piece is
// given back once it is sent; it does not count as memory for answers.
func TestSendMem(t *testing.T) {
	var uses atomic.Int64
	content := pattern(3 << 20)
	r := start(t, &script{serve: sendMem(&uses, content)}, nil)
	p := r.dialNarrow()
	for i := range int32(3) {
		p.write(request(i, nil))
		r.until(func(s Stats) bool { return s.Requests == int64(i)+1 })
		if n := r.Stats().OutBytes; n > 64<<10 {
			t.Errorf("%d bytes of memory for answers", n)
		}
		if got := p.expect(i, wire.Success).Body; !bytes.Equal(got, content) {
			t.Fatalf("%d bytes of %d, or others", len(got), len(content))
		}
		p.expect(i, wire.SystemBusy)
	}
	r.until(func(s Stats) bool { return uses.Load() == 0 && s.OutBytes == 0 })
}

// TestSendMemToNobody: what a connection that ends had still to get is given back, and so is what comes for it afterwards.
func TestSendMemToNobody(t *testing.T) {
	var uses atomic.Int64
	content := pattern(8 << 20)
	served := make(chan *Conn, 1)
	serve := sendMem(&uses, content)
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		served <- c
		return serve(c, req)
	}}, nil)
	p := r.dialNarrow()
	p.write(request(7, nil))
	c := <-served
	if _, err := io.ReadFull(p, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if uses.Load() == 0 || c.Gone() {
		t.Fatal("all is sent")
	}
	p.Close()
	r.until(func(s Stats) bool { return s.Conns == 0 && uses.Load() == 0 })
	if !c.Gone() {
		t.Error("the connection is not gone")
	}
	done := make(chan struct{})
	c.Loop().Execute(func() {
		c.SendMem(answer(&wire.Command{}, wire.Success), []uring.MemRange{lend(&uses, content)})
		close(done)
	})
	<-done
	if n := uses.Load(); n != 0 {
		t.Errorf("%d pieces are not given back", n)
	}
}

// TestLentMemoryIsNotWrittenTo: a piece of somebody else's memory that has room behind it, as much as a buffer of our own, is
// none: the next answer goes elsewhere.
func TestLentMemoryIsNotWrittenTo(t *testing.T) {
	var uses atomic.Int64
	mem := make([]byte, chunkBytes)
	lent := &owner{&uses, nil}
	uses.Add(1)
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		c.SendMem(answer(req, wire.Success), []uring.MemRange{{Bytes: mem[:100], Owner: lent}})
		c.Send(answer(req, wire.SystemBusy))
		return Done
	}}, nil)
	p := r.dial()
	p.write(request(1, nil))
	p.expect(1, wire.Success)
	p.expect(1, wire.SystemBusy)
	r.settled()
	if !bytes.Equal(mem, make([]byte, chunkBytes)) {
		t.Error("an answer was written behind the lent bytes")
	}
}
