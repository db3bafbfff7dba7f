package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a child with its output in a file. It dies with the test process, however that ends.
type process struct {
	cmd  *exec.Cmd
	log  string
	gone chan struct{} // closed when it has been waited for; then err is set
	err  error
}

// spawn starts cmd, whose output is appended to the file at log.
func spawn(cmd *exec.Cmd, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, gone: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// running is nil, or says how the process ended.
func (p *process) running() error {
	select {
	case <-p.gone:
		return fmt.Errorf("%s ended by itself (%v); its last words:\n%s", p.cmd.Path, p.err, p.tail())
	default:
		return nil
	}
}

// signal sends s and waits for the end, for up to within; then it kills.
func (p *process) signal(s os.Signal, within time.Duration) error {
	if err := p.running(); err != nil {
		return err
	}
	p.cmd.Process.Signal(s)
	select {
	case <-p.gone:
		return p.err
	case <-time.After(within):
	}
	p.kill()
	return fmt.Errorf("%s still ran %v after %v; its last words:\n%s", p.cmd.Path, within, s, p.tail())
}

// kill is kill -9. It returns when the process is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.gone
}

// tail is the end of the log.
func (p *process) tail() string {
	const most = 4 << 10
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(bytes.TrimSpace(b))
}

// procStatus are the lines of /proc/PID/status.
func procStatus(pid int) (map[string]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			all[k] = strings.TrimSpace(v)
		}
	}
	return all, nil
}
