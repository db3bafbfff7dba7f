package inspect

import (
	"encoding/binary"
	"testing"

	"ringmq/store/vfs/memfs"
)

// Files of the archives that are spoiled below.
const (
	rollLog2   = "/commitlog/00000000000000131072"
	rollLast   = "/commitlog/00000000000000262144"
	rollQueue  = "/consumequeue/RollA/0/00000000000000000000"
	rollFile   = "consumequeue/RollA/0/00000000000000000000"
	batchQueue = "/batchconsumequeue/BcqT/0/00000000000000000000"
	extFile    = "/consumequeue_ext/ExtT/0/00000000000000000000"
	lightQueue = "/consumequeue/%LMQ%a/0/00000000000000000000"
)

// edit replaces a file by what change makes of it.
func edit(t testing.TB, fsys *memfs.FS, name string, change func(b []byte) []byte) {
	t.Helper()
	writeFile(t, fsys, name, change(readFile(t, fsys, name)))
}

// flip changes one bit.
func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 1; return b }
}

func zero(from, to int) func([]byte) []byte {
	return func(b []byte) []byte { clear(b[from:to]); return b }
}

func cutTo(n int) func([]byte) []byte {
	return func(b []byte) []byte { return b[:n] }
}

// TestDamageIsFound spoils one file of a good directory at a time.
func TestDamageIsFound(t *testing.T) {
	edited := func(name string, change func([]byte) []byte) func(testing.TB, *memfs.FS) {
		return func(t testing.TB, fsys *memfs.FS) { edit(t, fsys, name, change) }
	}
	added := func(name, text string) func(testing.TB, *memfs.FS) {
		return func(t testing.TB, fsys *memfs.FS) { writeFile(t, fsys, name, []byte(text)) }
	}
	removed := func(name string) func(testing.TB, *memfs.FS) {
		return func(t testing.TB, fsys *memfs.FS) {
			if err := fsys.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		what    string
		archive string
		spoil   func(testing.TB, *memfs.FS)
		file    string
		level   Level
		kind    Kind
		at      int64
	}{
		{"a bit of a record flips", theirs + "roll", edited(rollLog2, flip(100)), rollLog2[1:], Damaged, Damage, 131072},
		{"a record is zeroed", theirs + "roll", edited(rollLog2, zero(0, 300)), rollLog2[1:], Damaged, Damage, 131072},
		{"a file of the log is all zeros", theirs + "roll", edited(rollLog2, zero(0, 65536)), rollLog2[1:], Damaged, Damage, 131072},
		{"bytes of no record follow the end", theirs + "roll", edited(rollLast, func(b []byte) []byte { b[65000] = 1; return b }), rollLast[1:], Repairable, TornTail, 322861},
		{"a file of the log is missing", theirs + "roll", removed(rollLog2), rollLog2[1:], Damaged, MissingFile, 131072},
		{"a file of the log is short", theirs + "roll", edited(rollLog2, cutTo(60000)), rollLog2[1:], Damaged, WrongLength, 131072},
		{"an empty next file", theirs + "roll", added("/commitlog/00000000000000327680", ""), "commitlog/00000000000000327680", Repairable, Empty, 327680},
		{"a prepared next file", theirs + "roll", added("/commitlog/00000000000000327680", string(make([]byte, 65536))), "commitlog/00000000000000327680", OK, Prepared, 327680},
		{"a file of the log with an odd name", theirs + "roll", added("/commitlog/00000000000000327681", string(make([]byte, 65536))), "commitlog/00000000000000327681", Damaged, Stray, -1},
		{"a stray in the log", theirs + "roll", added("/commitlog/notes.txt", "x"), "commitlog/notes.txt", Damaged, Stray, -1},

		{"an entry's place is wrong", theirs + "roll", edited(rollQueue, flip(20*7+7)), rollFile, Repairable, Wrong, 7},
		{"an entry's size is wrong", theirs + "roll", edited(rollQueue, flip(20*7+11)), rollFile, Repairable, Wrong, 7},
		{"an entry's tags are wrong", theirs + "roll", edited(rollQueue, flip(20*7+19)), rollFile, Repairable, Wrong, 7},
		{"an entry is zeroed", theirs + "roll", edited(rollQueue, zero(140, 160)), rollFile, Repairable, Missing, 7},
		{"an entry is a filler", theirs + "roll", edited(rollQueue, func(b []byte) []byte {
			clear(b[140:160])
			binary.BigEndian.PutUint32(b[148:], 0x7FFFFFFF)
			return b
		}), rollFile, Repairable, Missing, 7},
		{"an entry leads behind the log", theirs + "roll", edited(rollQueue, func(b []byte) []byte {
			binary.BigEndian.PutUint64(b[5900:], 1<<40)
			binary.BigEndian.PutUint32(b[5908:], 100)
			return b
		}), rollFile, Repairable, Beyond, 295},
		{"a queue file is short", theirs + "roll", edited(rollQueue, cutTo(1000)), rollFile, Repairable, WrongLength, -1},
		{"a queue file is long", theirs + "roll", edited(rollQueue, func(b []byte) []byte { return append(b, 0, 0) }), rollFile, Repairable, WrongLength, -1},
		{"a queue file is empty", theirs + "roll", edited(rollQueue, cutTo(0)), rollFile, Repairable, WrongLength, -1},
		{"a queue file is zeros", theirs + "roll", edited(rollQueue, zero(0, 6000)), rollFile, Repairable, Missing, 0},
		{"a queue has no file", theirs + "roll", removed(rollQueue), "consumequeue/RollA/0", Repairable, Missing, 0},
		{"a queue file without a message", theirs + "roll", added("/consumequeue/Other/0/00000000000000000000", string(make([]byte, 6000))), "consumequeue/Other/0/00000000000000000000", Repairable, Empty, -1},
		{"a stray in a queue", theirs + "roll", added("/consumequeue/RollA/0/x.tmp", "x"), "consumequeue/RollA/0/x.tmp", Repairable, Stray, -1},
		{"a light queue's entry is wrong", ours + "lmq", edited(lightQueue, flip(20+7)), lightQueue[1:], Repairable, Wrong, 1},
		{"a batch entry is wrong", ours + "bcq", edited(batchQueue, flip(46+7)), batchQueue[1:], Repairable, Wrong, 2},
		{"a batch entry is zeroed", ours + "bcq", edited(batchQueue, zero(46, 92)), "batchconsumequeue/BcqT/0", Repairable, Missing, -1},
		{"tags in the extension are wrong", ours + "ext", edited(extFile, flip(9)), "consumequeue/ExtT/0/00000000000000000000", Repairable, Wrong, 0},
		{"a unit of the extension has no size", ours + "ext", edited(extFile, flip(19)), extFile[1:], Repairable, Broken, 0},
		{"a RocksDB", theirs + "roll", added("/consumequeue/CURRENT", "x"), "consumequeue", Damaged, NotLooked, -1},
		{"a DLedger log", theirs + "roll", added("/dledger-n0/data", "x"), "dledger-n0", Damaged, NotLooked, -1},

		{"topics.json is cut, its backup is good", theirs + "plain", edited("/config/topics.json", cutTo(100)), "config/topics.json", Repairable, Broken, -1},
		{"topics.json is gone, its backup is good", theirs + "plain", removed("/config/topics.json"), "config/topics.json", Repairable, Broken, -1},
		{"a side file and its backup are cut", theirs + "plain", func(t testing.TB, fsys *memfs.FS) {
			edit(t, fsys, "/config/topics.json", cutTo(100))
			edit(t, fsys, "/config/topics.json.bak", cutTo(0))
		}, "config/topics.json", Damaged, Broken, -1},
		{"a backup is cut", theirs + "plain", edited("/config/topics.json.bak", cutTo(100)), "config/topics.json.bak", OK, Broken, -1},
		{"keys without quotes", theirs + "plain", added("/config/consumerOffset.json", `{"offsetTable":{"T@g":{0:10,1:20}}}`), "config/consumerOffset.json", OK, Good, -1},
		{"the checkpoint is short", theirs + "plain", edited("/checkpoint", cutTo(40)), "checkpoint", Repairable, WrongLength, -1},
		{"our checkpoint is no checkpoint", theirs + "plain", added("/ringmq.checkpoint", "x"), "ringmq.checkpoint", Repairable, Broken, -1},
		{"an index leads behind the log", theirs + "plain", added("/index/20261130031144683", indexHead(1, 2, 0, 1<<40, 1, 2)), "index/20261130031144683", Repairable, Beyond, 1 << 40},
		{"an index has more entries than bytes", theirs + "plain", added("/index/20261130031144683", indexHead(1, 2, 0, 1, 1, 1000)), "index/20261130031144683", Repairable, Broken, -1},
		{"an index is cut in its head", theirs + "plain", added("/index/20261130031144683", "head"), "index/20261130031144683", Repairable, WrongLength, -1},
	} {
		t.Run(c.what, func(t *testing.T) {
			fsys := unpack(t, c.archive+".tar.gz")
			c.spoil(t, fsys)
			r := verify(t, fsys, Options{Dir: "/", Workers: 2})
			v := find(t, r, c.file)
			if v.Level != c.level || v.Kind != c.kind || v.At != c.at {
				t.Errorf("%v %v at %d: want %v %v at %d\n%s", v.Level, v.Kind, v.At, c.level, c.kind, c.at, describe(r))
			}
			if r.Level < v.Level {
				t.Errorf("the report is %v, a verdict %v", r.Level, v.Level)
			}
		})
	}
}

// indexHead is an index file of its head and some room.
func indexHead(beginMs, endMs, begin, end int64, slots, next uint32) string {
	var b []byte
	for _, n := range []int64{beginMs, endMs, begin, end} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = binary.BigEndian.AppendUint32(b, slots)
	b = binary.BigEndian.AppendUint32(b, next)
	return string(append(b, make([]byte, 400)...))
}

// TestEveryFlipInAnEntryIsFound: an entry has no bit that nothing is held against.
func TestEveryFlipInAnEntryIsFound(t *testing.T) {
	for bit := range 20 * 8 {
		fsys := unpack(t, theirs+"plain.tar.gz")
		edit(t, fsys, "/consumequeue/TopicPlain/0/00000000000000000000", func(b []byte) []byte {
			b[20+bit/8] ^= 1 << (bit % 8)
			return b
		})
		if r := verify(t, fsys, Options{Dir: "/"}); r.Level != Repairable {
			t.Errorf("bit %d of entry 1: %v", bit, r.Level)
		}
	}
}

// TestNoStore: a directory of something else, and none at all, are refused with the remedy.
func TestNoStore(t *testing.T) {
	fsys := memfs.New(1)
	writeFile(t, fsys, "/home/notes.txt", []byte("x"))
	for _, dir := range []string{"/home", "/nowhere"} {
		if _, err := Open(fsys, Options{Dir: dir}); err == nil {
			t.Errorf("%s was taken for a store", dir)
		}
	}
}

// TestLogElsewhere: queues without a log are no clean directory.
func TestLogElsewhere(t *testing.T) {
	fsys := unpack(t, ours+"multipath.tar.gz")
	if v := find(t, verify(t, fsys, Options{Dir: "/"}), "commitlog"); v.Level != Damaged || v.Kind != MissingFile {
		t.Errorf("%+v", v)
	}
}

// FuzzVerify: whatever one of the files holds, there is a report.
func FuzzVerify(f *testing.F) {
	archives := []string{ours + "lmq", ours + "ext", ours + "bcq", theirs + "plain"}
	files := []string{
		"/commitlog/00000000000000000000", lightQueue, extFile, batchQueue, "/consumequeue/ExtT/0/00000000000000000000",
		"/index/20261130031144683", "/config/topics.json", "/checkpoint", "/ringmq.checkpoint", "/abort",
	}
	for a, archive := range archives {
		fsys := unpack(f, archive+".tar.gz")
		for i, name := range files {
			if info, err := fsys.Stat(name); err == nil {
				f.Add(uint(a), uint(i), readFile(f, fsys, name)[:min(info.Size, 3000)])
			}
		}
	}
	f.Fuzz(func(t *testing.T, archive, file uint, b []byte) {
		fsys := unpack(t, archives[archive%uint(len(archives))]+".tar.gz")
		writeFile(t, fsys, files[file%uint(len(files))], b)
		if r := verify(t, fsys, Options{Dir: "/", Workers: 1}); len(r.Verdicts) == 0 {
			t.Error("no verdict")
		}
	})
}
