package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// jvm is a running java/…/Driver: the stock Java client behind lines of JSON. Any goroutine may call.
type jvm struct {
	p *process

	// mu guards what follows.
	mu      sync.Mutex
	in      io.WriteCloser
	last    int
	waiting map[int]chan driverLine
	handle  map[string]func(got) // by the consumer's name
}

// driverLine is one line of the driver's output: an answer (ID > 0) or an event.
type driverLine struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
	Code   int             `json:"code"`

	Event   string `json:"event"`
	Name    string `json:"name"`
	Message got    `json:"message"`
	Token   int64  `json:"token"` // not 0: the driver waits to be told that the message was handled
}

// javaError is an exception in the driver.
type javaError struct {
	text string
	code int // the broker's or the client's response code, -1 if there was none
}

func (e *javaError) Error() string { return fmt.Sprintf("java: %s (code %d)", e.text, e.code) }

const (
	driverWait  = patience + time.Minute // an answer; the client's own time-outs are shorter
	driverLines = 32 << 20               // the longest line: a message at the size limit in base64, and more
)

// driverClasspath is the compiled driver and what it depends on.
var driverClasspath = sync.OnceValues(func() (string, error) {
	cp, err := mavenClasspath("java", "compile", "dependency:build-classpath")
	if err != nil {
		return "", err
	}
	classes, err := filepath.Abs(filepath.Join("java", "target", "classes"))
	return classes + ":" + cp, err
})

// startJVM returns when the driver answers. flags are for the JVM.
func startJVM(cp string, flags ...string) (*jvm, error) {
	args := append([]string{
		"-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Duser.home=" + workDir, "-Drocketmq.client.localOffsetStoreDir=" + filepath.Join(workDir, "java-offsets"),
		"-Drocketmq.log.root=" + workDir, "-Drocketmq.log.level=WARN",
	}, flags...)
	cmd := exec.Command("java", append(args, "-cp", cp, "ringmq.interop.Driver")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe: waiting for the process would close it before the last line is read.
	out, w := io.Pipe()
	cmd.Stdout = w
	p, err := spawn(cmd, filepath.Join(workDir, fmt.Sprintf("driver-%d.log", serial.Add(1))))
	if err != nil {
		return nil, err
	}
	j := &jvm{p: p, in: in, waiting: map[int]chan driverLine{}, handle: map[string]func(got){}}
	go func() {
		<-p.gone
		w.Close()
	}()
	go j.read(out)
	return j, j.call("ping", nil, nil)
}

// read hands out the driver's lines until it ends.
func (j *jvm) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, driverLines)
	for lines.Scan() {
		var l driverLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			fmt.Fprintf(os.Stderr, "interop: the driver printed %.200q: %v\n", lines.Bytes(), err)
			continue
		}
		j.mu.Lock()
		done, handle := j.waiting[l.ID], j.handle[l.Name]
		delete(j.waiting, l.ID)
		j.mu.Unlock()
		switch {
		case l.Event != "" && handle != nil && l.Token != 0:
			go func() {
				handle(l.Message)
				j.call("consumer.handled", map[string]any{"name": l.Name, "token": l.Token}, nil) // an error: it is killed
			}()
		case l.Event != "" && handle != nil:
			handle(l.Message)
		case done != nil:
			done <- l
		}
	}
	io.Copy(io.Discard, out) // never block the driver, even after a line over the limit
}

// call runs one command and decodes its result into result, unless that is nil.
func (j *jvm) call(op string, args map[string]any, result any) error {
	done := make(chan driverLine, 1)
	j.mu.Lock()
	j.last++
	id := j.last
	line := map[string]any{"id": id, "op": op}
	for k, v := range args {
		line[k] = v
	}
	b, err := json.Marshal(line)
	if err == nil {
		j.waiting[id] = done
		_, err = j.in.Write(append(b, '\n'))
	}
	j.mu.Unlock()
	if err != nil {
		return errors.Join(err, j.p.running())
	}
	select {
	case l := <-done:
		if l.Error != "" {
			return &javaError{l.Error, l.Code}
		}
		if result == nil || len(l.Result) == 0 {
			return nil
		}
		if err := json.Unmarshal(l.Result, result); err != nil {
			return fmt.Errorf("%s: result %.200q: %w", op, l.Result, err)
		}
		return nil
	case <-j.p.gone:
		return fmt.Errorf("%s: %w", op, j.p.running())
	case <-time.After(driverWait):
		return fmt.Errorf("%s: no answer from the driver within %v", op, driverWait)
	}
}

// onMessage registers who gets the messages of a consumer, before it is started.
func (j *jvm) onMessage(consumer string, handle func(got)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.handle[consumer] = handle
}

// needJVM starts a JVM of the test's own, which ends with it.
func needJVM(t *testing.T, flags ...string) *jvm {
	t.Helper()
	cp, err := driverClasspath()
	need(t, err)
	j, err := startJVM(cp, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.p.kill)
	return j
}
