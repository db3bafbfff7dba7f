package memfs

import "time"

const (
	pageBytes   = 4096
	sectorBytes = 512
)

// block is the contents of a page at one moment. It never changes: a write makes a new one. So blocks
// are shared between what is current, what is durable, flushes in flight and crash copies.
type block struct {
	seq  uint64 // of the write that made it
	data *[pageBytes]byte
}

// page is one page of a file. A zero block reads as zeros.
type page struct {
	cur, durable block
	dirty        bool // cur will be written by the next sync; false after a failed one, which lost it

	landed bool   // some sync wrote it
	doubt  uint64 // when that was, while a crash may forget that it was written; see FS.LoseFresh
}

// inode is a file or a directory, guarded by its FS's mutex.
type inode struct {
	dir   bool
	mod   time.Time
	links int // names in what everybody sees
	opens int // handles and slots

	// A directory's. Durable holds what SyncDir has made durable, pending what it has not, in order.
	entries, durable map[string]*inode
	pending          []*dirOp

	// A file's.
	size     int64
	reserved int64 // pages from the start that Preallocate holds blocks for
	pages    map[int64]*page
	dirty    map[int64]bool // the indexes of dirty pages
	loose    int64          // pages with a block beyond reserved

	// What a sync made durable: the size and the reservation of the newest flush that succeeded.
	durableSize, durableReserved int64
	durableSeq                   uint64

	errs    int   // failed flushes so far; a handle that saw fewer has an error to report
	lastErr error // of the newest
}

func newDir() *inode {
	return &inode{dir: true, mod: time.Now(), entries: map[string]*inode{}, durable: map[string]*inode{}}
}

func newFile() *inode {
	return &inode{mod: time.Now(), pages: map[int64]*page{}, dirty: map[int64]bool{}}
}

// change sets one name of a directory; no node removes it.
type change struct {
	dir  *inode
	base string
	node *inode
}

// dirOp is one operation on directories: its changes become durable together. It is pending in each
// directory that it changes.
type dirOp struct {
	changes []change
}

// commit makes o durable, and before it whatever is pending in front of it. That is older than o, so
// the recursion ends.
func (o *dirOp) commit() {
	for _, c := range o.changes {
		for c.dir.pending[0] != o {
			c.dir.pending[0].commit()
		}
	}
	for _, c := range o.changes {
		c.apply(c.dir.durable)
		if len(c.dir.pending) > 0 && c.dir.pending[0] == o {
			c.dir.pending = c.dir.pending[1:]
		}
	}
}

func (c change) apply(entries map[string]*inode) {
	if c.node == nil {
		delete(entries, c.base)
	} else {
		entries[c.base] = c.node
	}
}

// blocks is the number of pages that the file occupies.
func (n *inode) blocks() int64 { return n.reserved + n.loose }

// set makes b the current block of a page. The caller has made sure that there is room.
func (n *inode) set(index int64, b block) {
	p := n.pages[index]
	if p == nil {
		p = &page{}
		n.pages[index] = p
	}
	if index >= n.reserved {
		switch had, has := p.cur.data != nil, b.data != nil; {
		case has && !had:
			n.loose++
		case had && !has:
			n.loose--
		}
	}
	p.cur, p.dirty = b, true
	n.dirty[index] = true
}

// image is what a sync carries: the dirty pages at the moment when it began.
type image struct {
	node           *inode
	seq            uint64
	size, reserved int64
	pages          map[int64]block
}

func (n *inode) snapshot(seq uint64) image {
	im := image{node: n, seq: seq, size: n.size, reserved: n.reserved, pages: map[int64]block{}}
	for index := range n.dirty {
		im.pages[index] = n.pages[index].cur
	}
	return im
}

// snapshotRange is a snapshot of the dirty pages that n bytes from off touch, and of nothing else: size
// and reservation stay as durable as they were.
func (n *inode) snapshotRange(seq uint64, off, bytes int64) image {
	im := image{node: n, seq: seq, size: n.durableSize, reserved: n.durableReserved, pages: map[int64]block{}}
	for index := off / pageBytes; index*pageBytes < off+bytes; index++ {
		if n.dirty[index] {
			im.pages[index] = n.pages[index].cur
		}
	}
	return im
}

// land makes the image durable. A newer one may have landed before.
func (im image) land() {
	n := im.node
	for index, b := range im.pages {
		p := n.pages[index]
		if b.seq > p.durable.seq {
			p.durable = b
		}
		n.cleanPage(index, b)
	}
	if im.seq > n.durableSeq {
		n.durableSeq, n.durableSize, n.durableReserved = im.seq, im.size, im.reserved
	}
}

// lose is what a failed write-back does: the pages are clean and were never written.
func (im image) lose(err error) {
	for index, b := range im.pages {
		im.node.cleanPage(index, b)
	}
	im.node.errs++
	im.node.lastErr = err
}

// cleanPage ends a page's dirtiness unless it was written again since b.
func (n *inode) cleanPage(index int64, b block) {
	if p := n.pages[index]; p.cur.seq == b.seq {
		p.dirty = false
		delete(n.dirty, index)
	}
}
