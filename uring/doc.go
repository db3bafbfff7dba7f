// Package uring is what ringmq asks of the kernel about files and buffers, without any policy:
//
//   - Mirror: off-heap memory in which a ring's records never wrap;
//   - File and FileRange: bytes of a stored file on their way to a socket, counted so that the file
//     stays open until the last of them is sent, and sent by sendfile(2) where there is a descriptor;
//   - Vec: pieces of memory sent by one system call;
//   - Residency: what of a file the page cache holds;
//   - Arena: off-heap memory that the kernel reads into;
//   - Ring: flushes, reads and waits in flight in the kernel (io_uring), where it allows that.
//
// It is the lowest layer: it imports nothing of ringmq, and everyone above may import it.
package uring
