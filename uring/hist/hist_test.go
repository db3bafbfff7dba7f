package hist

import (
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	for value, want := range map[int64]int{-5: 0, 0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 1024: 10, 1025: 11, 1 << 30: 30, 1<<30 + 1: 31, 1 << 62: 31} {
		var h Hist
		h.Add(value, 3)
		s := h.Read()
		if s.Counts[want] != 3 || s.Count() != 3 || s.Sum != 3*max(value, 0) {
			t.Errorf("%d: %+v, want bucket %d", value, s, want)
		}
	}
}

func TestMerge(t *testing.T) {
	var a, b Hist
	a.AddTime(3 * time.Microsecond)
	b.AddTime(time.Second)
	s := a.Read()
	s.Merge(b.Read())
	if s.Count() != 2 || s.Sum != 1_000_003 || s.Counts[2] != 1 || s.Counts[20] != 1 {
		t.Errorf("%+v", s)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	var h Hist
	if n := testing.AllocsPerRun(100, func() { h.AddTime(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
