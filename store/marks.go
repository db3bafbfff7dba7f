package store

// Marks are three ends of the log, each a physical offset that is the end of a record. They only
// grow, and Visible <= Written, Durable <= Written hold at any moment.
type Marks struct {
	Written int64 // given to the kernel
	Durable int64 // on the disk
	Visible int64 // shown to readers: Durable with FlushSync, else Written
}

// Marks returns the marks. Any goroutine may call it.
func (s *Store) Marks() Marks { panic("building") }
