package inspect

import (
	"maps"
	"slices"
	"testing"
)

// The archives were written by a stock broker 5.5.0; those that package store tests are read there.
const (
	theirs = "../testdata/golden/"
	ours   = "testdata/golden/"
)

// TestGoldenVerdicts: directories that a stock broker closed are clean in every file, with an entry found
// for every message; of damaged ones exactly that is said which was done to them.
func TestGoldenVerdicts(t *testing.T) {
	crashed := map[Kind]int{Missing: 4, NotClosed: 1}
	with := func(more ...Kind) map[Kind]int {
		kinds := maps.Clone(crashed)
		for _, k := range more {
			kinds[k]++
		}
		return kinds
	}
	for _, c := range []struct {
		archive string
		records int64
		entries int64
		end     int64
		level   Level
		kinds   map[Kind]int // of the verdicts that are not OK
	}{
		{theirs + "plain", 34, 34, 12034, OK, nil},
		{theirs + "roll", 424, 424, 322861, OK, nil},
		{theirs + "batch", 38, 38, 7817, OK, nil},
		{theirs + "crc", 34, 34, 12714, OK, nil},
		{theirs + "empty", 0, 0, 0, OK, nil},
		{theirs + "v2props", 10, 10, 34444, OK, nil},
		{theirs + "ipv6", 12, 12, 2828, OK, nil},
		{theirs + "lz4zstd", 5, 5, 1424, OK, nil},
		{ours + "crcbatch", 38, 38, 8577, OK, nil},
		{ours + "multipath", 424, 424, 322861, OK, nil},
		{ours + "bcq", 12, 12, 7143, OK, nil},
		{ours + "ext", 20, 20, 5145, OK, nil},
		{ours + "lmq", 7, 16, 2025, OK, nil}, // some messages stand in three queues
		{ours + "compaction", 12, 12, 3002, OK, nil},
		{ours + "delay", 19, 19, 5453, OK, nil},
		{ours + "retry", 21, 21, 7084, OK, nil},
		{ours + "tx", 41, 41, 16760, OK, nil},
		{ours + "crash.after", 740, 740, 197938, OK, nil},

		{theirs + "nocq", 299, 0, 81916, Repairable, map[Kind]int{Missing: 2}},
		{theirs + "crash", 740, 143, 197938, Repairable, crashed},
		{theirs + "torn", 740, 143, 197938, Repairable, with(Unproven)},
		{theirs + "zerotail", 739, 143, 197672, Repairable, with(TornTail)},
		{ours + "tornmid", 739, 143, 195710, Damaged, with(Damage, Behind)},
	} {
		t.Run(c.archive, func(t *testing.T) {
			o := Options{Dir: "/"}
			if c.archive == ours+"multipath" {
				o.CommitLogDirs = []string{"/commitlog-a", "/commitlog-b"}
			}
			r := verify(t, unpack(t, c.archive+".tar.gz"), o)
			if r.Records != c.records || r.Entries != c.entries || r.End != c.end || r.Level != c.level {
				t.Errorf("%d records, %d entries, end %d, %v; want %d, %d, %d, %v", r.Records, r.Entries, r.End, r.Level, c.records, c.entries, c.end, c.level)
			}
			got := map[Kind]int{}
			for _, v := range r.Verdicts {
				if v.Level != OK {
					got[v.Kind]++
				}
			}
			if !maps.Equal(got, c.kinds) {
				t.Errorf("found %v, want %v\n%s", got, c.kinds, describe(r))
			}
		})
	}
}

// TestGoldenPlaces: the damaged place is named, and what a cut there would lose.
func TestGoldenPlaces(t *testing.T) {
	r := verify(t, unpack(t, ours+"tornmid.tar.gz"), Options{Dir: "/"})
	v := find(t, r, "commitlog/00000000000000131072")
	if v.Kind != Damage || v.At != 195710 {
		t.Errorf("%+v: want damage at 195710", v)
	}
	want := []QueueLoss{{"CrashT", 0, 3, 367, 369}, {"CrashT", 1, 4, 366, 369}}
	if r.Lost == nil || r.Lost.Records != 7 || r.Lost.Gaps != 1 || r.Lost.Bytes != 2228 || !slices.Equal(r.Lost.Queues, want) {
		t.Errorf("lost %+v, want 7 messages in %v", r.Lost, want)
	}

	r = verify(t, unpack(t, theirs+"zerotail.tar.gz"), Options{Dir: "/"})
	if v := find(t, r, "commitlog/00000000000000196608"); v.Kind != TornTail || v.At != 197672 {
		t.Errorf("%+v: want a torn tail at 197672", v)
	}
	if r.Lost != nil {
		t.Errorf("lost %+v, want nothing", r.Lost)
	}
}
