package osfs

import "ringmq/store/vfs"

// New returns the machine's file system.
func New() vfs.FS { panic("later") }
