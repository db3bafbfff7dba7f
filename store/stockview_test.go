package store

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ringmq/store/internal/derive"
	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
	"ringmq/store/vfs"
)

// checkStockView reports what a stock broker 5.5.0 would stumble over in a directory.
func checkStockView(t testing.TB, fsys vfs.FS, dir string, logs ...string) {
	t.Helper()
	if err := stockView(t, fsys, dir, logs...); err != nil {
		t.Errorf("a stock broker would not find its way: %v", err)
	}
}

// stockView judges a directory as that broker does: without "abort" it believes that every record is in
// its queue, that nothing follows, and that all files have their length. logs are the log's directories, if
// not the usual one.
func stockView(t testing.TB, fsys vfs.FS, dir string, logs ...string) error {
	t.Helper()
	if len(logs) == 0 {
		logs = []string{path.Join(dir, "commitlog")}
	}
	if _, err := fsys.Stat(path.Join(dir, "abort")); err == nil {
		return nil // it will look for itself
	}
	files := logFiles(fsys, logs)
	records, err := walkFiles(t, fsys, files)
	if err != nil {
		return err
	}
	return matchQueues(t, fsys, path.Join(dir, "consumequeue"), records, firstBase(files))
}

// logFiles returns the paths of what is in the log's directories but directories, in the order of their names.
func logFiles(fsys vfs.FS, logs []string) (files []string) {
	for _, dir := range logs {
		names, _ := fsys.List(dir) // none where it was not made yet
		for _, name := range names {
			if info, err := fsys.Stat(path.Join(dir, name)); err == nil && !info.Dir {
				files = append(files, path.Join(dir, name))
			}
		}
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return files
}

// firstBase is where the log begins.
func firstBase(files []string) int64 {
	for _, file := range files {
		if base, err := strconv.ParseInt(path.Base(file), 10, 64); err == nil {
			return base
		}
	}
	return 0
}

type queuePlace struct {
	topic string
	id    string
	at    int64
}

// walkFiles returns the queue entries that the log asks for.
func walkFiles(t testing.TB, fsys vfs.FS, files []string) (map[queuePlace]queue.Entry, error) {
	records := map[queuePlace]queue.Entry{}
	ended, size, next := false, 0, int64(-1)
	for _, name := range files {
		base, err := strconv.ParseInt(path.Base(name), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("log file %s", name)
		}
		if next >= 0 && base != next {
			return nil, fmt.Errorf("log file %s where one that begins at %d should be", name, next)
		}
		b := readFile(t, fsys, name)
		next = base + int64(len(b))
		if size != 0 && len(b) != size {
			return nil, fmt.Errorf("log file %s has %d bytes, others %d", name, len(b), size)
		}
		size = len(b)
		end, full := walkFile(b, base, records)
		if ended && end > 0 {
			return nil, fmt.Errorf("log file %s: records behind the log's end", name)
		}
		if full {
			continue
		}
		ended = true
		for i, c := range b[end:] {
			if c != 0 {
				return nil, fmt.Errorf("log file %s: not zero at %d, behind the end %d", name, end+i, end)
			}
		}
	}
	return records, nil
}

func walkFile(b []byte, base int64, records map[queuePlace]queue.Entry) (end int, full bool) {
	var r record.Record
	for {
		at := base + int64(end)
		err := record.Verify(b[end:], at, &r)
		if errors.Is(err, record.ErrBlank) {
			return end, true
		}
		if err != nil {
			return end, false
		}
		if record.InQueue(r.SysFlag) {
			code, relative := derive.StockLevels.Tags(string(r.Topic), r.Props)
			if relative {
				code += r.StoreMs
			}
			records[queuePlace{string(r.Topic), strconv.Itoa(int(r.QueueID)), r.QueueOffset}] = queue.Entry{Offset: at, Size: int32(r.Size), Tags: code}
		}
		end += r.Size
	}
}

// matchQueues holds the queue files to the records, both ways. Entries may point below the log's first offset.
func matchQueues(t testing.TB, fsys vfs.FS, root string, records map[queuePlace]queue.Entry, first int64) error {
	found, err := queue.List(fsys, root)
	if err != nil {
		return err
	}
	size := int64(0)
	for _, f := range found {
		for _, base := range f.Bases {
			b := readFile(t, fsys, path.Join(root, f.Topic, strconv.Itoa(int(f.ID)), fmt.Sprintf("%020d", base)))
			if size != 0 && int64(len(b)) != size {
				return fmt.Errorf("queue file %s/%d/%d has %d bytes, others %d", f.Topic, f.ID, base, len(b), size)
			}
			size = int64(len(b))
			for i := 0; i < len(b); i += queue.EntryBytes {
				place := queuePlace{f.Topic, strconv.Itoa(int(f.ID)), (base + int64(i)) / queue.EntryBytes}
				e := queue.Parse(b[i:])
				if want := records[place]; e != want && !e.Filler() && e.Offset >= first {
					return fmt.Errorf("queue entry %v is %+v, the log has %+v", place, e, want)
				}
				if i == 0 && !e.Valid() {
					return fmt.Errorf("queue file %s/%d/%d without entries", f.Topic, f.ID, base)
				}
				delete(records, place)
			}
		}
	}
	for place, e := range records {
		return fmt.Errorf("the log has %+v, queue entry %v is missing", e, place)
	}
	return nil
}
