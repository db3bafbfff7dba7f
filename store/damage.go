package store

import (
	"errors"
	"fmt"

	"ringmq/store/internal/derive"
	"ringmq/store/internal/log"
)

// Hole is a part of the log that is damaged: [From, To).
type Hole struct{ From, To int64 }

// hole returns the damage that n bytes from off touch.
func (r *Recovered) hole(off int64, n int) (Hole, bool) {
	for _, h := range r.Damage {
		if off < h.To && off+int64(n) > h.From {
			return h, true
		}
	}
	return Hole{}, false
}

// stop is where recovery ends in damage: the log stays as it is, with the mark of an unclean stop and the
// checkpoint that was found, so that the next Open sees the same. What is whole behind the damage is
// put into its queues and served, and nothing is appended.
func (r *recovery) stop(tail log.Tail) error {
	s := r.s
	r.holed = true
	end, err := r.passHoles(tail.Whole)
	if err != nil {
		return err
	}
	first := s.found.Damage[0]
	err = fmt.Errorf("%w at %d: what is whole is served, nothing is stored: \"ringmq store repair %s\" says what cutting it there loses, and does it; or restore the directory from a copy", ErrDamaged, first.From, s.o.Dir)
	s.o.Log.Error("store: DAMAGE: bytes that were on the disk are no record any more; open for reading only", "dir", s.o.logPlace(),
		"from", first.From, "to", first.To, "places", len(s.found.Damage), "durable", r.durable, "end", end, "err", err)
	return r.hold(end, err)
}

// hold opens for reading alone: the log, the mark of an unclean stop and the checkpoint stay as they are, so that the
// next Open sees the same.
func (r *recovery) hold(end int64, why error) error {
	s := r.s
	if err := r.show(end); err != nil {
		return err
	}
	s.found.End, s.found.Records = end, r.records
	s.index = derive.NoIndex()
	s.log.Hold(end, why)
	s.held = true
	return nil
}

// holdUncut is where recovery ends on a disk without room for the copy of what it would cut: messages can be read, and
// nothing is lost.
func (r *recovery) holdUncut(tail log.Tail, noRoom error) error {
	err := fmt.Errorf("%w: the log ends at %d, and %d bytes behind that have to be cut after a copy of them was made, for which the disk of %s has no room: messages are read, and none are taken; make room there and start again (%w)",
		ErrUncut, tail.End, tail.Bytes, r.s.o.Dir, noRoom)
	r.s.o.Log.Error("store: the torn end of the log is not cut yet; open for reading only", "dir", r.s.o.logPlace(), "at", tail.End, "bytes", tail.Bytes, "err", err)
	return r.hold(tail.End, err)
}

// passHoles walks on behind damage that begins at from, as long as there are records, and returns where
// the last one ends.
func (r *recovery) passHoles(from int64) (end int64, err error) {
	s := r.s
	for {
		next, ok, err := s.log.Resume(from, r.must)
		if err != nil {
			return 0, s.explain(err)
		}
		if !ok {
			break
		}
		s.found.Damage = append(s.found.Damage, Hole{from, next})
		if from, err = s.log.Walk(next, r.must, r.mustFrom, r.visit); err != nil {
			return 0, err
		}
	}
	if from < r.durable {
		s.found.Damage = append(s.found.Damage, Hole{from, r.durable})
	}
	return from, nil
}

// closeHeld is close for a store that Open has not let write.
func (s *Store) closeHeld() error {
	return errors.Join(s.cold.Close(), s.keeper.Close(), s.log.Close(), s.files.Close(), s.mark.Close(), s.lock.Close())
}
