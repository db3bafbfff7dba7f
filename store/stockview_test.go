package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"testing"

	"ringmq/store/internal/derive"
	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
	"ringmq/store/vfs"
)

// checkStockView reports what a stock broker 5.5.0 would stumble over in a directory.
func checkStockView(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	if err := stockView(t, fsys, dir); err != nil {
		t.Errorf("a stock broker would not find its way: %v", err)
	}
}

// stockView judges a directory as that broker does: without "abort" it believes that every record is in
// its queue, that nothing follows, and that all files have their length.
func stockView(t testing.TB, fsys vfs.FS, dir string) error {
	t.Helper()
	if _, err := fsys.Stat(path.Join(dir, "abort")); err == nil {
		return nil // it will look for itself
	}
	records, err := walkFiles(t, fsys, path.Join(dir, "commitlog"))
	if err != nil {
		return err
	}
	return matchQueues(t, fsys, path.Join(dir, "consumequeue"), records, firstBase(fsys, path.Join(dir, "commitlog")))
}

// firstBase is where the log begins.
func firstBase(fsys vfs.FS, dir string) int64 {
	names, _ := fsys.List(dir)
	for _, name := range names {
		if base, err := strconv.ParseInt(name, 10, 64); err == nil {
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
func walkFiles(t testing.TB, fsys vfs.FS, dir string) (map[queuePlace]queue.Entry, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	records := map[queuePlace]queue.Entry{}
	ended, size := false, 0
	for _, name := range names {
		if info, err := fsys.Stat(path.Join(dir, name)); err != nil || info.Dir {
			continue
		}
		base, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("log file %s", name)
		}
		b := readFile(t, fsys, path.Join(dir, name))
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
		if derive.InQueue(r.SysFlag) {
			code, relative := derive.Tags(string(r.Topic), r.Props)
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
