package rigtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds each wait for a child. It is long because the machine may be busy; a test that passes
// never waits so long.
const patience = 60 * time.Second

// process is a child under the eyes of the test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	ledger *ledger
	poke   chan struct{} // something was reported
	ended  chan struct{} // closed at the end of its output
	reaped bool

	// mu guards what follows: what it has reported.
	mu sync.Mutex
	report
}

type report struct {
	engine      string
	open        bool
	acked       int
	ackedEnd    int64 // of the last acknowledgement
	late        int
	found       map[place]uint64
	reads       []int // messages of each time that it has read everything
	wrong       []string
	unreadable  []string
	full        int     // times that there was no more room
	ackedAtFull int     // before the last of them
	paused      []int64 // end of the log
	failed      *failure
	closed      string
	refused     string // why the store did not open
	logs        []string
}

// failure is how the log of a child failed.
type failure struct {
	at, now int64 // what was visible then, and later
}

// start runs a child that does j. It is killed when the test ends.
func start(t *testing.T, l *ledger, j job) *process {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, ledger: l, poke: make(chan struct{}, 1), ended: make(chan struct{})}
	p.found = map[place]uint64{}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	go p.listen(out)
	return p
}

// listen takes reports until the process has ended, those from just before its death too.
func (p *process) listen(out io.Reader) {
	defer close(p.ended)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // a line without end is no report
		}
		if err := p.take(strings.TrimSuffix(line, "\n")); err != nil {
			p.mu.Lock()
			p.wrong = append(p.wrong, err.Error())
			p.mu.Unlock()
		}
		select {
		case p.poke <- struct{}{}:
		default:
		}
	}
}

// take notes one report; the list of them is at type child.
func (p *process) take(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	var at place
	var hash uint64
	var err error
	switch verb {
	case "ack":
		_, err = fmt.Sscan(rest, &at.queue, &at.at, &hash, &p.ackedEnd)
		p.acked++
		p.ledger.promise(at, promise{hash: hash, acked: true})
	case "seen":
		_, err = fmt.Sscan(rest, &at.queue, &at.at, &hash)
		p.found[at] = hash
		p.ledger.promise(at, promise{hash: hash, seen: true})
	case "late":
		p.late++
	case "read":
		var n int
		_, err = fmt.Sscan(rest, &n)
		p.reads = append(p.reads, n)
	case "paused":
		var end int64
		_, err = fmt.Sscan(rest, &end)
		p.paused = append(p.paused, end)
	case "failed":
		f := &failure{}
		_, err = fmt.Sscan(rest, &f.at, &f.now)
		p.failed = f
	default:
		p.takeText(verb, rest)
	}
	if err != nil {
		return fmt.Errorf("report %q: %w", line, err)
	}
	return nil
}

func (p *process) takeText(verb, rest string) {
	switch verb {
	case "engine":
		p.engine = rest
	case "open":
		p.open = true
	case "full":
		p.full++
		p.ackedAtFull = p.acked
	case "unreadable":
		p.unreadable = append(p.unreadable, rest)
	case "closed":
		p.closed = rest
	case "refused":
		p.refused = rest
	case "log":
		p.logs = append(p.logs, rest)
	default:
		p.wrong = append(p.wrong, verb+" "+rest)
	}
}

// await waits until cond holds for what was reported. It fails the test when something went wrong, when
// the process has ended before, or when patience is over.
func (p *process) await(what string, cond func(*report) bool) {
	p.t.Helper()
	tooLong := time.After(patience)
	for ended := false; ; {
		p.mu.Lock()
		holds, wrong := cond(&p.report), len(p.wrong) > 0
		p.mu.Unlock()
		switch {
		case wrong:
			p.fatal("wrong, while the test waited for: " + what)
		case holds:
			return
		case ended:
			p.fatal("the child ended; the test waited for: " + what)
		}
		select {
		case <-p.poke:
		case <-p.ended:
			ended = true // look once more: the last report came before
		case <-tooLong:
			p.fatal(fmt.Sprintf("%v were not enough for: %s", patience, what))
		}
	}
}

// fatal ends the test with what the child has said.
func (p *process) fatal(why string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Fatalf("%s\nwrong: %q\nunreadable: %q\nopen %v, %d acknowledged, %d seen, read %v, failed %+v, closed %q\nlog:\n%s",
		why, p.wrong, p.unreadable, p.open, p.acked, len(p.found), p.reads, p.failed, p.closed+p.refused, strings.Join(p.logs[max(0, len(p.logs)-30):], "\n"))
}

// awaitAcks waits until the child has acknowledged n messages.
func (p *process) awaitAcks(n int) {
	p.t.Helper()
	p.await(fmt.Sprintf("%d acknowledgements", n), func(r *report) bool { return r.acked >= n })
}

// awaitRead waits until the child has read everything n times.
func (p *process) awaitRead(n int) {
	p.t.Helper()
	p.await("all messages read", func(r *report) bool { return len(r.reads) >= n })
}

// soFar is what the child has reported by now.
func (p *process) soFar() report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report
}

// wantAllAckedRead fails the test unless the child's last complete reading found every message that it had
// acknowledged.
func (p *process) wantAllAckedRead() {
	p.t.Helper()
	r := p.soFar()
	if read := r.reads[len(r.reads)-1]; read < r.acked || len(r.unreadable) > 0 {
		p.fatal(fmt.Sprintf("%d messages were acknowledged, %d can be read", r.acked, read))
	}
}

// awaitEnd waits until the child takes nothing any more, and holds it to: not one acknowledgement after
// that, and none of what was appended after the fault. Either its log has failed, or its queues met the
// fault first: then appends are refused before they reach the log.
func (p *process) awaitEnd() {
	p.t.Helper()
	p.await("the end of all appends", func(r *report) bool { return r.failed != nil || r.full > 0 })
	p.holdToEnd()
}

func (p *process) holdToEnd() {
	p.t.Helper()
	r := p.soFar()
	if r.late > 0 {
		p.fatal(fmt.Sprintf("%d messages were acknowledged that were appended after the cut", r.late))
	}
	if f := r.failed; f != nil && (f.now != f.at || r.ackedEnd > f.at) {
		p.fatal(fmt.Sprintf("acknowledged after the log failed: visible up to %d then, %d later, acknowledged up to %d", f.at, f.now, r.ackedEnd))
	}
}

// tell gives the child one of its commands.
func (p *process) tell(command byte) {
	p.t.Helper()
	if _, err := p.in.Write([]byte{command}); err != nil {
		p.fatal("the child does not listen: " + err.Error())
	}
}

// kill ends the child by SIGKILL and takes what it still reported.
func (p *process) kill() {
	if p.reaped {
		return
	}
	p.reaped = true
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = p.cmd.Wait() // it was killed
	_ = p.in.Close()
}

// close has the child close its store and waits for its end.
func (p *process) close() {
	p.t.Helper()
	p.tell('q')
	p.await("the store to close", func(r *report) bool { return r.closed != "" })
	if p.soFar().closed != "ok" {
		p.fatal("close failed")
	}
	p.kill()
}

// wantEngine fails the test if the child does not flush by what it should. Where it fell back it must have
// said why.
func (p *process) wantEngine(e engine) {
	p.t.Helper()
	p.await("an open store", func(r *report) bool { return r.open })
	r := p.soFar()
	if r.engine != e.want {
		p.fatal(fmt.Sprintf("the engine is %q, want %q", r.engine, e.want))
	}
	if logs := strings.Join(r.logs, "\n"); e.deny && !(strings.Contains(logs, "no io_uring") && strings.Contains(logs, "seccomp")) {
		p.fatal("no reason was given for the fallback")
	}
}

// checkAll opens the directory in a new child, reads everything and compares it with the promises. The
// child goes on to hold the store.
func checkAll(t *testing.T, l *ledger, e engine, j job) *process {
	t.Helper()
	j.Load = false
	p := start(t, l, j)
	p.wantEngine(e)
	p.awaitRead(1)
	if err := l.compare(p.soFar().found); err != nil {
		p.fatal(err.Error())
	}
	return p
}
