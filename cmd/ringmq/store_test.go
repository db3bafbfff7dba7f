package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringmq/store/inspect"
	"ringmq/store/vfs/vfstest"
)

// Directories that a stock broker 5.5.0 wrote.
const (
	plainStore   = "../../store/testdata/golden/plain.tar.gz"
	packedStore  = "../../store/testdata/golden/lz4zstd.tar.gz"
	noQueueStore = "../../store/testdata/golden/nocq.tar.gz"
	damagedStore = "../../store/inspect/testdata/golden/tornmid.tar.gz"
	lightStore   = "../../store/inspect/testdata/golden/lmq.tar.gz"
	pathsStore   = "../../store/inspect/testdata/golden/multipath.tar.gz"
)

// unpackStore returns a directory with what an archive holds.
func unpackStore(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	vfstest.EachArchived(t, archive, func(name string, data []byte) {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	})
	return dir
}

// hashOf is one for all names, bytes and times of change below dir.
func hashOf(t *testing.T, dir string) [32]byte {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(h, name, info.Mode(), info.ModTime().UnixNano())
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(name)
		h.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return [32]byte(h.Sum(nil))
}

// codeOf is the exit code that an error leads to.
func codeOf(err error) int {
	var e *exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.code
	}
	return 1
}

// TestStoreVerify: a verdict for each file, an exit code, what to type next; and not a byte changes.
func TestStoreVerify(t *testing.T) {
	for _, c := range []struct {
		archive string
		flags   []string
		code    int
		want    []string
	}{
		{plainStore, nil, exitClean, []string{"ok          consumequeue/TopicPlain/0/00000000000000000000: ", "34 records in files of 128.0 KiB", "Nothing to do."}},
		{noQueueStore, nil, exitRepairable, []string{"repairable  consumequeue/ManyT/0 at 0: missing entries: ", "ringmq store rebuild DIR"}},
		{damagedStore, nil, exitDamaged, []string{"damaged     commitlog/00000000000000131072 at 195710: damage: ", "ringmq store repair DIR"}},
		{pathsStore, []string{"--commitlog", "DIR/commitlog-a,DIR/commitlog-b"}, exitClean, []string{"424 records"}},
		{pathsStore, []string{"--commitlog", "DIR/commitlog-a", "--commitlog-readonly", "DIR/commitlog-b"}, exitClean, []string{"424 records"}},
		{pathsStore, nil, exitDamaged, []string{"storePathCommitLog"}},
	} {
		dir := unpackStore(t, c.archive)
		before := hashOf(t, dir)
		args := []string{"store", "verify", dir + "//"}
		for _, f := range c.flags {
			args = append(args, strings.ReplaceAll(f, "DIR", dir))
		}
		out, err := run(t, "", args...)
		if codeOf(err) != c.code {
			t.Errorf("%s: %v, want code %d", c.archive, err, c.code)
		}
		for _, want := range c.want {
			if !strings.Contains(strings.ReplaceAll(out, dir, "DIR"), want) {
				t.Errorf("%s: no %q in\n%s", c.archive, want, out)
			}
		}
		if hashOf(t, dir) != before {
			t.Errorf("%s: the directory was changed", c.archive)
		}
	}
	if _, err := run(t, "", "store", "verify", t.TempDir()); codeOf(err) != exitNotLooked || !errors.Is(err, inspect.ErrNoStore) {
		t.Errorf("of no store: %v", err)
	}
}

func TestStoreVerifyJSON(t *testing.T) {
	out, err := run(t, "", "store", "verify", "--json", unpackStore(t, damagedStore))
	if codeOf(err) != exitDamaged {
		t.Error(err)
	}
	var r struct {
		Level    string
		End      int64
		Verdicts []struct{ File, Level, Kind, Text string }
		Lost     struct{ Records int64 }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.Level != "damaged" || r.End != 195710 || r.Lost.Records != 7 || len(r.Verdicts) < 10 || r.Verdicts[0].Level == "" {
		t.Errorf("%+v", r)
	}
}

func TestStoreVerifyQuiet(t *testing.T) {
	out, err := run(t, "", "store", "verify", "-q", unpackStore(t, plainStore))
	if err != nil || strings.Contains(out, "consumequeue") || !strings.Contains(out, "Nothing to do.") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestStoreRebuild: nothing happens without a yes; then all entries are there again.
func TestStoreRebuild(t *testing.T) {
	dir := unpackStore(t, noQueueStore)
	before := hashOf(t, dir)
	for _, answer := range []string{"", "no\n", "y\n"} {
		if out, err := run(t, answer, "store", "rebuild", dir); codeOf(err) != exitRepairable || hashOf(t, dir) != before {
			t.Errorf("answer %q: %v\n%s", answer, err, out)
		}
	}
	if out, err := run(t, "yes\n", "store", "rebuild", "--queue-file-bytes", "6000", dir); err != nil || !strings.Contains(out, "299 records") {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := run(t, "", "store", "verify", dir)
	if err != nil || !strings.Contains(out, "299 entries that lead") {
		t.Errorf("%v\n%s", err, out)
	}
	if info, err := os.Stat(filepath.Join(dir, "consumequeue/ManyT/0/00000000000000000000")); err != nil || info.Size() != 6000 {
		t.Errorf("%v %v", info, err)
	}

	if _, err := run(t, "", "store", "rebuild", "--yes", unpackStore(t, damagedStore)); codeOf(err) != exitDamaged {
		t.Errorf("of a damaged log: %v", err)
	}
	if out, _ := run(t, "no\n", "store", "rebuild", unpackStore(t, lightStore)); !strings.Contains(out, "those 2 are removed only") {
		t.Errorf("light queues are not spoken of:\n%s", out)
	}
}

// TestStoreRepair: first it only says what would be lost; with --yes the log ends at the damage, the
// copy is there, and the rest is clean.
func TestStoreRepair(t *testing.T) {
	dir := unpackStore(t, damagedStore)
	before := hashOf(t, dir)
	out, err := run(t, "", "store", "repair", dir)
	if codeOf(err) != exitDamaged || hashOf(t, dir) != before {
		t.Errorf("%v, and the directory must not change", err)
	}
	for _, want := range []string{"cut at 195710", "loses 7 whole messages", `"CrashT"/0`, "367 to 369", "366 to 369", "/cut/00000000000000195710."} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, err = run(t, "", "store", "repair", "--yes", dir)
	if err != nil || !strings.Contains(out, "All is well.") {
		t.Fatalf("%v\n%s", err, out)
	}
	if info, err := os.Stat(filepath.Join(dir, "cut/00000000000000195710.0")); err != nil || info.Size() != 2228 {
		t.Errorf("the copy: %v %v", info, err)
	}
	out, err = run(t, "", "store", "repair", dir)
	if err != nil || !strings.Contains(out, "no damage") {
		t.Errorf("again: %v\n%s", err, out)
	}

	// Damage that no cut ends is left alone.
	dir = unpackStore(t, damagedStore)
	if err := os.WriteFile(filepath.Join(dir, "commitlog", "stray"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	before = hashOf(t, dir)
	if out, err := run(t, "", "store", "repair", "--yes", dir); codeOf(err) != exitDamaged || hashOf(t, dir) != before {
		t.Errorf("beside a stray: %v\n%s", err, out)
	}
}

// TestStoreDump: each way to choose messages.
func TestStoreDump(t *testing.T) {
	plain := unpackStore(t, plainStore)
	all := dumped(t, plain)
	if len(all) != 34 {
		t.Fatalf("%d messages", len(all))
	}
	third := all[2]
	for _, c := range []struct {
		flags []string
		want  func(m shownMessage) bool
	}{
		{[]string{"--from", "275", "--to", "1054"}, func(m shownMessage) bool { return m.Offset >= 275 && m.Offset < 1054 }},
		{[]string{"--topic", "TopicPlain"}, func(m shownMessage) bool { return m.Topic == "TopicPlain" }},
		{[]string{"--topic", "TopicPlain", "--queue", "0", "--begin", "1", "--end", "3"}, func(m shownMessage) bool {
			return m.Topic == "TopicPlain" && m.QueueID == 0 && m.QueueOffset >= 1 && m.QueueOffset < 3
		}},
		{[]string{"--key", "shared"}, func(m shownMessage) bool { return strings.Contains(m.Properties["KEYS"], "shared") }},
		{[]string{"--key", third.Properties["UNIQ_KEY"]}, func(m shownMessage) bool { return m.Offset == third.Offset }},
		{[]string{"--since", third.StoreTime}, func(m shownMessage) bool { return m.StoreMs >= third.StoreMs }},
		{[]string{"--until", fmt.Sprint(third.StoreMs)}, func(m shownMessage) bool { return m.StoreMs < third.StoreMs }},
	} {
		var want []int64
		for _, m := range all {
			if c.want(m) {
				want = append(want, m.Offset)
			}
		}
		var got []int64
		for _, m := range dumped(t, plain, c.flags...) {
			got = append(got, m.Offset)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(want) == 0 || len(want) == len(all) {
			t.Errorf("%v: %v, want %v", c.flags, got, want)
		}
	}
	if got := dumped(t, plain, "--count", "3"); len(got) != 3 {
		t.Errorf("--count 3: %d", len(got))
	}
}

// dumped are the messages that dump prints as JSON.
func dumped(t *testing.T, dir string, flags ...string) (all []shownMessage) {
	t.Helper()
	out, err := run(t, "", append([]string{"store", "dump", "--json", dir}, flags...)...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", flags, err, out)
	}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var m shownMessage
		err := dec.Decode(&m)
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("%v: %v in\n%s", flags, err, out)
		}
		all = append(all, m)
	}
}

// TestStoreDumpBodies: unpacked, cut to the limit, in the form that was asked for, and harmless to a
// terminal.
func TestStoreDumpBodies(t *testing.T) {
	dir := unpackStore(t, packedStore)
	kinds := map[string]bool{}
	for _, m := range dumped(t, dir, "--body-limit", "100000") {
		kinds[m.Compression] = true
		if m.BodyError != "" || m.Body == nil || m.BodyCut || len(*m.Body) <= m.BodyBytes && m.Compression != "" {
			t.Errorf("%+v", m)
		}
	}
	for _, kind := range []inspect.Compression{inspect.LZ4, inspect.ZSTD, inspect.Zlib} {
		if !kinds[string(kind)] {
			t.Errorf("no body of %s", kind)
		}
	}
	for _, m := range dumped(t, dir, "--body-limit", "3") {
		if !m.BodyCut || m.Body == nil || len(*m.Body) > 3 {
			t.Errorf("%+v", m)
		}
	}
	for _, m := range dumped(t, dir, "--body", "hex", "--body-limit", "3") {
		if m.BodyHex == nil || len(*m.BodyHex) != 6 {
			t.Errorf("%+v", m)
		}
	}
	out, err := run(t, "", "store", "dump", dir, "--body", "size")
	if err != nil || strings.Count(out, "\n") != 5 || !strings.Contains(out, "B of lz4") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := quoteOdd("a\x1b[31m"); got != `"a\x1b[31m"` {
		t.Errorf("for a terminal: %s", got)
	}
}

func TestStoreDumpComplains(t *testing.T) {
	dir := unpackStore(t, plainStore)
	_, err := run(t, "", "store", "dump", dir, "--queue", "1", "--since", "noon", "--body", "odd", "--body-limit", "-1")
	for _, want := range []string{"--queue wants", "--since", "--body odd", "--body-limit -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	out, err := run(t, "", "store", "dump", unpackStore(t, damagedStore), "--from", "195444", "--body", "size")
	if err != nil || !strings.Contains(out, "no record at 195710, 266 bytes are skipped") || strings.Count(out, "CrashT/") != 8 {
		t.Errorf("over damage: %v\n%s", err, out)
	}
}

func TestWholeRunes(t *testing.T) {
	for _, c := range [][2]string{{"abc", "abc"}, {"", ""}, {"aé", "aé"}, {"a\xc3", "a"}, {"a\xe2\x82", "a"}, {"a\xf0\x9f\x98", "a"}, {"a\xff", "a\xff"}} {
		if got := wholeRunes(c[0]); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
}

// TestProgress: nothing before its time, a bar at each tick, and nothing is left at the end.
func TestProgress(t *testing.T) {
	var p inspect.Progress
	p.Total.Store(1 << 20)
	p.Done.Store(1 << 19)
	begin, tick, ended := make(chan time.Time), make(chan time.Time), make(chan struct{})
	var out bytes.Buffer
	done := make(chan struct{})
	go func() {
		drawProgress(&out, "verifying", &p, begin, tick, ended)
		close(done)
	}()
	begin <- time.Time{}
	tick <- time.Time{}
	close(ended)
	<-done
	line := "\r\x1b[Kverifying [###############...............]  50% of 1.0 MiB"
	if want := line + line + "\r\x1b[K"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}

	out.Reset()
	drawProgress(&out, "verifying", &p, nil, nil, ended)
	if out.Len() > 0 {
		t.Errorf("short work drew %q", out.String())
	}
	showProgress(&out, "verifying", &p)()
	if out.Len() > 0 {
		t.Errorf("no terminal, but %q", out.String())
	}
	if got := progressLine("verifying", 3<<20, 1<<20); !strings.Contains(got, "100%") {
		t.Errorf("read twice: %q", got)
	}
}
