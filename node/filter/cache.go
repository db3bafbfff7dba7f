package filter

import "sync"

// Bounds of one generation of a Cache; there are two.
const (
	cacheExprs = 1024
	cacheBytes = 128 << 10 // of texts; an expression takes up to fifty times as much
)

// Cache keeps the expressions that subscriptions use, so that each is compiled once and not for every pull. The zero
// Cache is empty. Any goroutine may use it.
//
// What is in use moves to the young generation; when that is full it becomes the old one, and what was in the old one is
// forgotten. A forgotten expression is compiled again when somebody asks for it.
type Cache struct {
	// mu guards what follows. Leaf lock: map work only.
	mu         sync.RWMutex
	young, old map[string]*Expr
	bytes      int // of the young texts
}

// Compile returns the expression of a text. The error is an *Error and is not kept.
func (c *Cache) Compile(text string) (*Expr, error) {
	c.mu.RLock()
	e := c.young[text]
	c.mu.RUnlock()
	if e != nil {
		return e, nil
	}
	c.mu.RLock()
	e = c.old[text]
	c.mu.RUnlock()
	if e == nil {
		var err error
		if e, err = Compile(text); err != nil {
			return nil, err
		}
	}
	return c.keep(e), nil
}

// keep puts e into the young generation, unless another goroutine has put its like there.
func (c *Cache) keep(e *Expr) *Expr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if same := c.young[e.text]; same != nil {
		return same
	}
	if c.young == nil || len(c.young) == cacheExprs || c.bytes+len(e.text) > cacheBytes {
		c.young, c.old, c.bytes = map[string]*Expr{}, c.young, 0
	}
	c.young[e.text] = e
	c.bytes += len(e.text)
	return e
}

// Len returns how many expressions are kept.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := len(c.young)
	for text := range c.old {
		if c.young[text] == nil {
			n++
		}
	}
	return n
}
