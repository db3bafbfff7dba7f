package floor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pull is the bare loop of a broker that serves catch-up consumers from the page cache: one epoll loop that takes pulls off
// its connections and answers each with a header and the records of its queue. They lie in one file as a topic's messages
// lie in a log, the queues taking turns:
//
//	record 0 of queue 0 | record 0 of queue 1 | ... | record 1 of queue 0 | ...
//
// Of a request it reads three numbers, by searching for their names. There is no topic, no check, no bound and no
// housekeeping. What is left is what any server of the same answers must do: epoll_wait, read, and one writev from a
// mapping of the file, or a send of the header and one sendfile for each record.
type Pull struct {
	// Set by NewPull, constant afterwards.
	layout Layout
	file   *os.File
	mem    []byte // the file, mapped
	stop   int    // eventfd
	up     chan struct{}

	// Run only.
	epoll int
	conns map[int]*pulling
	iov   []unix.Iovec
}

// Layout is what the file of a Pull holds, and how it is sent.
type Layout struct {
	Queues      int
	Records     int  // of each queue
	RecordBytes int  // of one record
	Most        int  // records in one answer
	Sendfile    bool // else writev
}

// pulling is one connection.
type pulling struct {
	fd  int
	in  []byte // of the next request
	buf [4 << 10]byte

	// The answer that is being sent; nothing is read meanwhile.
	head    []byte
	first   int // place of its first record in the file, in records
	records int
	piece   int // sent: this many pieces, header and records, and
	done    int // so many bytes of the next one
	waits   bool
}

// NewPull makes the file in dir; Close removes it.
func NewPull(dir string, l Layout) (*Pull, error) {
	if l.Queues < 1 || l.Records < 1 || l.RecordBytes < 1 || l.Most < 1 {
		return nil, fmt.Errorf("floor: layout %+v: want numbers above zero", l)
	}
	f, err := os.CreateTemp(dir, "floor-*.tmp")
	if err != nil {
		return nil, err
	}
	p := &Pull{layout: l, file: f, stop: -1, epoll: -1, up: make(chan struct{}), conns: map[int]*pulling{}, iov: make([]unix.Iovec, 1+l.Most)}
	record := make([]byte, l.RecordBytes)
	for i := range l.Queues * l.Records {
		for at := range record {
			record[at] = recordByte(i)
		}
		if err := writeAll(int(f.Fd()), record, int64(i*l.RecordBytes)); err != nil {
			p.Close()
			return nil, err
		}
	}
	if p.mem, err = unix.Mmap(int(f.Fd()), 0, l.Queues*l.Records*l.RecordBytes, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		p.Close()
		return nil, fmt.Errorf("floor: mmap: %w", err)
	}
	if p.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		p.Close()
		return nil, fmt.Errorf("floor: eventfd: %w", err)
	}
	return p, nil
}

// recordByte is what record i of the file consists of.
func recordByte(i int) byte { return 'a' + byte(i%26) }

// Close gives back what NewPull took. Run must have ended.
func (p *Pull) Close() {
	if p.mem != nil {
		_ = unix.Munmap(p.mem)
	}
	for _, fd := range []int{p.stop, p.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	_ = p.file.Close()
	_ = os.Remove(p.file.Name())
}

// Up is closed once the server listens.
func (p *Pull) Up() <-chan struct{} { return p.up }

// Stop ends Run.
func (p *Pull) Stop() { _, _ = unix.Write(p.stop, binary.NativeEndian.AppendUint64(nil, 1)) }

// Run serves an IPv4 address and port until Stop.
func (p *Pull) Run(addr string) (err error) {
	listener, err := listen(addr)
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("floor: epoll_create1: %w", err)
	}
	defer func() {
		for fd := range p.conns {
			_ = unix.Close(fd)
		}
	}()
	for _, fd := range []int{listener, p.stop} {
		if err := p.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	close(p.up)
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(p.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("floor: epoll_wait: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			switch fd := int(e.Fd); fd {
			case p.stop:
				return nil
			case listener:
				err = p.accept(listener)
			default:
				if err := p.serve(p.conns[fd]); err != nil { // the peer's end, as far as this server knows
					delete(p.conns, fd)
					_ = unix.Close(fd)
				}
			}
			if err != nil && err != unix.EINTR {
				return err
			}
		}
	}
}

func listen(addr string) (fd int, err error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().Is4() {
		return -1, fmt.Errorf("floor: address %q: want IPv4 and a port (%v)", addr, err)
	}
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, fmt.Errorf("floor: socket: %w", err)
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		if err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err == nil {
			err = unix.Listen(fd, 128)
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("floor: listen on %s: %w", addr, err)
	}
	return fd, nil
}

func (p *Pull) watch(op, fd int, events uint32) error {
	if err := unix.EpollCtl(p.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("floor: epoll_ctl: %w", err)
	}
	return nil
}

func (p *Pull) accept(listener int) error {
	fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return fmt.Errorf("floor: accept4: %w", err)
	}
	c := &pulling{fd: fd}
	c.in = c.buf[:0]
	p.conns[fd] = c
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return p.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN)
}

// serve goes on with the answer that is being sent, else with the next request.
func (p *Pull) serve(c *pulling) error {
	if c.waits {
		return p.send(c)
	}
	n, err := unix.Read(c.fd, c.buf[len(c.in):])
	if err != nil || n == 0 {
		return fmt.Errorf("floor: read %d bytes: %w", n, err)
	}
	if c.in = c.buf[:len(c.in)+n]; len(c.in) < 8 {
		return nil
	}
	size := int(binary.BigEndian.Uint32(c.in)) + 4
	if size > len(c.buf) || size < len(c.in) {
		return fmt.Errorf("floor: a request of %d bytes with %d there", size, len(c.in))
	}
	if len(c.in) < size {
		return nil
	}
	if err := p.answer(c); err != nil {
		return err
	}
	c.in = c.buf[:0]
	return p.send(c)
}

// answer sets up the answer to the request in c.in.
func (p *Pull) answer(c *pulling) error {
	opaque, ok1 := number(c.in[8:], `"opaque":`)
	queue, ok2 := number(c.in[8:], `"queueId":"`)
	offset, ok3 := number(c.in[8:], `"queueOffset":"`)
	l := &p.layout
	if !ok1 || !ok2 || !ok3 || queue < 0 || queue >= l.Queues || offset < 0 || offset >= l.Records {
		return fmt.Errorf("floor: no pull that can be served: %q", c.in)
	}
	c.first, c.records, c.piece, c.done = offset*l.Queues+queue, min(l.Most, l.Records-offset), 0, 0
	h := append(c.head[:0], 0, 0, 0, 0, 0, 0, 0, 0)
	h = append(h, `{"code":0,"flag":1,"language":"GO","opaque":`...)
	h = strconv.AppendInt(h, int64(opaque), 10)
	h = append(h, `,"serializeTypeCurrentRPC":"JSON","version":0,"remark":"FOUND","extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"`...)
	h = strconv.AppendInt(h, int64(offset+c.records), 10)
	h = append(h, `","minOffset":"0","maxOffset":"`...)
	h = strconv.AppendInt(h, int64(l.Records), 10)
	h = append(h, `","topicSysFlag":"0","groupSysFlag":"0"}}`...)
	binary.BigEndian.PutUint32(h, uint32(len(h)-4+c.records*l.RecordBytes))
	binary.BigEndian.PutUint32(h[4:], uint32(len(h)-8))
	c.head = h
	return nil
}

// number is the one that follows key.
func number(header []byte, key string) (int, bool) {
	at := bytes.Index(header, []byte(key))
	if at < 0 {
		return 0, false
	}
	digits := header[at+len(key):]
	n := 0
	for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
		n++
	}
	v, err := strconv.Atoi(string(digits[:n]))
	return v, err == nil
}

// send sends until the answer is out or the socket is full.
func (p *Pull) send(c *pulling) error {
	for c.piece <= c.records {
		n, err := p.sendSome(c)
		if err == unix.EAGAIN {
			return p.wait(c, true)
		}
		if err != nil {
			return err
		}
		for n += c.done; c.piece <= c.records && n >= p.pieceBytes(c, c.piece); c.piece++ {
			n -= p.pieceBytes(c, c.piece)
		}
		c.done = n
	}
	return p.wait(c, false)
}

// wait watches for room in the socket, or for the next request.
func (p *Pull) wait(c *pulling, forRoom bool) error {
	if c.waits == forRoom {
		return nil
	}
	c.waits = forRoom
	events := uint32(unix.EPOLLIN)
	if forRoom {
		events = unix.EPOLLOUT
	}
	return p.watch(unix.EPOLL_CTL_MOD, c.fd, events)
}

func (p *Pull) pieceBytes(c *pulling, piece int) int {
	if piece == 0 {
		return len(c.head)
	}
	return p.layout.RecordBytes
}

// place is where a record of the answer begins in the file.
func (p *Pull) place(c *pulling, piece int) int {
	return (c.first + (piece-1)*p.layout.Queues) * p.layout.RecordBytes
}

// sendSome makes one system call.
func (p *Pull) sendSome(c *pulling) (int, error) {
	switch {
	case !p.layout.Sendfile:
		return p.writev(c)
	case c.piece == 0:
		return unix.SendmsgN(c.fd, c.head[c.done:], nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
	}
	off := int64(p.place(c, c.piece) + c.done)
	return unix.Sendfile(c.fd, int(p.file.Fd()), &off, p.layout.RecordBytes-c.done)
}

func (p *Pull) writev(c *pulling) (int, error) {
	iov := p.iov[:0]
	for piece := c.piece; piece <= c.records; piece++ {
		from := 0
		if piece == c.piece {
			from = c.done
		}
		var v unix.Iovec
		if piece == 0 {
			v.Base = &c.head[from]
		} else {
			v.Base = &p.mem[p.place(c, piece)+from]
		}
		v.SetLen(p.pieceBytes(c, piece) - from)
		iov = append(iov, v)
	}
	n, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(c.fd), uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
