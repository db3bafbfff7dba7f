package vfs

// MakeDir makes dir and what is missing above it, durable on return.
func MakeDir(fsys FS, dir string) error { panic("later") }
