package host

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestParse: the fields are found whatever a process is called, and what is none is told.
func TestParse(t *testing.T) {
	cpu, err := parseCPU("7 (a b) c) S 1 7 7 0 -1 4194560 9 0 0 0 250 30 0 0 20 0 1 0 5 6 7\n")
	if err != nil || cpu != 2800*time.Millisecond {
		t.Errorf("cpu %v %v", cpu, err)
	}
	written, err := parseWritten("  11 12 13 14  15 16 2048 18 19 20 21\n")
	if err != nil || written != 1<<20 {
		t.Errorf("written %d %v", written, err)
	}
	for _, bad := range []string{"", "7 (x) S 1", "7 (x) S 1 7 7 0 -1 4194560 9 0 0 0 x 30 0"} {
		if _, err := parseCPU(bad); err == nil {
			t.Errorf("%q is a process", bad)
		}
	}
	for _, bad := range []string{"", "11 12 13 14 15 16", "11 12 13 14 15 16 x 18"} {
		if _, err := parseWritten(bad); err == nil {
			t.Errorf("%q is a device", bad)
		}
	}
}

// TestOwn: this process has used time and memory, and more of both after it has worked.
func TestOwn(t *testing.T) {
	if all, err := Resident(os.Getpid()); err != nil || all <= 0 {
		t.Errorf("resident %d, %v", all, err)
	}
	before, err := OwnMemory(os.Getpid())
	if err != nil || before <= 0 {
		t.Fatalf("memory %d %v", before, err)
	}
	held := make([]byte, 64<<20)
	for i := range held {
		held[i] = byte(i)
	}
	after, err := OwnMemory(os.Getpid())
	if err != nil || after < before+32<<20 {
		t.Errorf("memory %d after %d with %d bytes more, %v", after, before, len(held), err)
	}
	start, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	sum := byte(0)
	for now := start; now < start+50*time.Millisecond; {
		for _, b := range held {
			sum += b
		}
		if now, err = CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(sum)
	read, err := ReadBytes(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("host.go")
	if err != nil {
		t.Fatal(err)
	}
	if more, err := ReadBytes(os.Getpid()); err != nil || more < read+int64(len(file)) {
		t.Errorf("read %d after %d and a file of %d, %v", more, read, len(file), err)
	}
	if _, err := CPU(1 << 30); err == nil {
		t.Error("a process that does not exist has a time")
	}
}

// TestDescribe: the kernel and the number of processors are always known.
func TestDescribe(t *testing.T) {
	got := Describe(t.TempDir())
	if !strings.HasPrefix(got, "Linux ") || !strings.Contains(got, fmt.Sprintf(", %d x ", runtime.NumCPU())) {
		t.Errorf("got %q", got)
	}
	t.Log(got)
}
