package memfs

import (
	"maps"
	"math/rand/v2"
	"slices"

	"ringmq/store/vfs"
)

// TearSectors makes crashes decide for each 512-byte sector of an unsynced page whether it is kept,
// instead of for the page.
func (f *FS) TearSectors(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tear = on
}

// LoseFresh makes crashes forget blocks as ext4 may. Where a page that was only preallocated is written for the
// first time, a sync has to write the page, and the note in the journal that it is data now. When the
// journal was aborted in between, the sync that wrote the page says that all is well; one that begins later is
// refused. So such a page may read as zeros after a crash until a second sync, of whatever file or
// directory, has succeeded that began after the first one's end.
func (f *FS) LoseFresh(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loseFresh = on
}

// noteLocked takes down that a sync has written its pages.
func (f *FS) noteLocked(im image) {
	f.sureLocked(im.seq)
	f.seq++
	for index := range im.pages {
		p := im.node.pages[index]
		if !p.landed && f.loseFresh && index < im.node.reserved {
			p.doubt = f.seq
			f.doubtful = append(f.doubtful, p)
		}
		p.landed = true
	}
}

// sureLocked ends the doubts that a sync which began at seq, and succeeded, leaves no room for.
func (f *FS) sureLocked(seq uint64) {
	f.doubtful = slices.DeleteFunc(f.doubtful, func(p *page) bool {
		if p.doubt > seq {
			return false
		}
		p.doubt = 0
		return true
	})
}

// Crash cuts the power and returns what is there when it comes back, as AfterCrash does. The old file
// system and its handles fail with ErrCrashed from then on, and flushes in flight end with it. Crash may be
// called again on the old one, for another throw of the dice at the same moment.
func (f *FS) Crash(rng *rand.Rand, keepPercent int) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	after := f.afterCrashLocked(rng, keepPercent)
	f.crashed = true
	f.endFlushesLocked()
	return after
}

// AfterCrash returns what would be there if the power were cut now: all that was synced, and of the rest
// keepPercent in a hundred, by the dice; 0 keeps nothing and 100 everything. Nobody holds a lock there. f
// itself goes on.
func (f *FS) AfterCrash(rng *rand.Rand, keepPercent int) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.afterCrashLocked(rng, keepPercent)
}

func (f *FS) afterCrashLocked(rng *rand.Rand, keepPercent int) *FS {
	c := crash{old: f, rng: rng, keepPercent: keepPercent, kept: map[*dirOp]bool{}, copies: map[*inode]*inode{}}
	c.keepOps(f.root, map[*inode]bool{})
	after := New(rng.Uint64())
	after.seq, after.tear, after.loseFresh, after.totalBytes = f.seq, f.tear, f.loseFresh, f.totalBytes
	after.root = c.copyDir(f.root)
	for _, node := range c.copies {
		after.usedPages += node.blocks()
	}
	return after
}

// endFlushesLocked tells the engines, once, that what was in flight will not be answered otherwise. The
// images stay for further throws of the dice.
func (f *FS) endFlushesLocked() {
	for _, fl := range f.flying {
		if fl.engine != nil {
			fl.engine.box.Post(vfs.Flushed{ID: fl.id, Err: pathError("fdatasync", fl.slot.name, ErrCrashed)})
			fl.engine = nil
		}
	}
	f.held = nil
}

// crash is one throw of the dice. It changes nothing of the old file system, and looks at things in a
// fixed order, so that the same dice give the same outcome.
type crash struct {
	old         *FS
	rng         *rand.Rand
	keepPercent int
	kept        map[*dirOp]bool
	copies      map[*inode]*inode
}

// keepOps chooses a prefix of what is pending in dir and in every directory that can be reached from
// there, by durable entries or pending ones.
func (c *crash) keepOps(dir *inode, been map[*inode]bool) {
	if been[dir] {
		return
	}
	been[dir] = true
	keep := len(dir.pending)
	if c.keepPercent < 100 {
		keep = 0
		for keep < len(dir.pending) && c.throw() {
			keep++
		}
	}
	for _, op := range dir.pending[:keep] {
		c.keep(op)
	}
	for _, base := range slices.Sorted(maps.Keys(dir.durable)) {
		if node := dir.durable[base]; node.dir {
			c.keepOps(node, been)
		}
	}
	for _, op := range dir.pending {
		for _, ch := range op.changes {
			if ch.node != nil && ch.node.dir {
				c.keepOps(ch.node, been)
			}
		}
	}
}

// keep keeps op, and whatever is pending in front of it.
func (c *crash) keep(op *dirOp) {
	if c.kept[op] {
		return
	}
	c.kept[op] = true
	for _, ch := range op.changes {
		for _, before := range ch.dir.pending {
			if before == op {
				break
			}
			c.keep(before)
		}
	}
}

func (c *crash) throw() bool { return c.rng.IntN(100) < c.keepPercent }

// copyDir returns dir as it is after the crash, with all that hangs below it.
func (c *crash) copyDir(dir *inode) *inode {
	entries := maps.Clone(dir.durable)
	for _, op := range dir.pending {
		if !c.kept[op] {
			continue
		}
		for _, ch := range op.changes {
			if ch.dir == dir {
				ch.apply(entries)
			}
		}
	}
	after := newDir()
	after.mod = dir.mod
	for _, base := range slices.Sorted(maps.Keys(entries)) {
		node := c.copyNode(entries[base])
		node.links++
		after.entries[base], after.durable[base] = node, node
	}
	return after
}

func (c *crash) copyNode(node *inode) *inode {
	if c.copies[node] == nil {
		if node.dir {
			c.copies[node] = c.copyDir(node)
		} else {
			c.copies[node] = c.copyFile(node)
		}
	}
	return c.copies[node]
}

// copyFile returns what is left of a file: one of the sizes that were on their way, and of each page one
// of the contents that were.
func (c *crash) copyFile(node *inode) *inode {
	after := newFile()
	after.mod, after.size, after.reserved = node.mod, node.durableSize, node.durableReserved
	images := c.images(node)
	if im, ok := choose(c, images); ok {
		after.size, after.reserved = im.size, im.reserved
	}
	for _, index := range slices.Sorted(maps.Keys(node.pages)) {
		b := node.pages[index].durable
		var others []block
		for _, im := range images {
			if other, ok := im.pages[index]; ok && other.seq > b.seq {
				others = append(others, other)
			}
		}
		b = c.pick(b, others)
		if p := node.pages[index]; p.doubt > 0 && c.keepPercent < 100 && !c.throw() {
			b = block{}
		}
		after.pages[index] = &page{cur: b, durable: b, landed: true}
	}
	after.settle()
	return after
}

// images are the states of the file, newer than the durable one, that may be on the disk in parts: what
// flushes in flight carry, and the current one last.
func (c *crash) images(node *inode) []image {
	var all []image
	for _, fl := range c.old.flying {
		if fl.image.node == node && fl.image.seq > node.durableSeq {
			all = append(all, fl.image)
		}
	}
	return append(all, node.snapshot(c.old.seq+1))
}

// pick returns what a page holds after the crash: the durable block or one of the others, oldest first,
// or pieces of both.
func (c *crash) pick(durable block, others []block) block {
	if len(others) == 0 {
		return durable
	}
	if !c.old.tear {
		if b, ok := choose(c, others); ok {
			return b
		}
		return durable
	}
	torn := block{seq: others[len(others)-1].seq, data: new([pageBytes]byte)}
	for at := 0; at < pageBytes; at += sectorBytes {
		from := durable
		if b, ok := choose(c, others); ok {
			from = b
		}
		if from.data != nil {
			copy(torn.data[at:at+sectorBytes], from.data[at:])
		}
	}
	return torn
}

// choose throws the dice whether one of all is kept, and which; with everything kept it is the newest.
func choose[T any](c *crash, all []T) (one T, ok bool) {
	switch {
	case len(all) == 0:
		return one, false
	case c.keepPercent >= 100:
		return all[len(all)-1], true
	case !c.throw():
		return one, false
	}
	return all[c.rng.IntN(len(all))], true
}

// settle makes a file that a crash left consistent with its size: nothing is behind its end, and all that
// is there is durable.
func (n *inode) settle() {
	whole := (n.size + pageBytes - 1) / pageBytes
	n.reserved = min(n.reserved, whole)
	for index, p := range n.pages {
		if index >= whole || p.cur.data == nil {
			delete(n.pages, index)
			continue
		}
		if in := n.size % pageBytes; index == whole-1 && in != 0 {
			cut := block{seq: p.cur.seq, data: new([pageBytes]byte)}
			copy(cut.data[:in], p.cur.data[:])
			p.cur, p.durable = cut, cut
		}
		if index >= n.reserved {
			n.loose++
		}
	}
	n.durableSize, n.durableReserved = n.size, n.reserved
}
