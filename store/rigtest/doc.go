// Package rigtest runs stores on the machine's own kernel and takes things away from them: the power,
// single pages of the disk, all its room, the process, the end of the log, io_uring. It has tests only.
//
//	the test                               a child: the test binary again
//	  cuts, punches, fills, kills  ──────►   a store under load, and a reader of all that it shows
//	  ledger of what was promised  ◄─pipe─   each acknowledgement, each message seen, each refusal
//
// What a child acknowledged or showed is promised. After the fault another child opens the directory and
// reads everything: each promised message must be there with equal bytes at its queue offset, the offsets
// must be dense, and nothing may be there that nobody sent. The pipe is no part of the file system under
// test, so the ledger survives whatever happens to it.
//
// The rigs that need a disk of their own make it of a file in a tmpfs: an ext4 or XFS image on a loop device,
// mounted in a mount namespace of the test binary, so that nothing of it outlives the process, however
// that ends.
// They need root, loop devices, mkfs.ext4 and mkfs.xfs, and are skipped where one of these is missing.
// With RINGMQ_PROVE=1 they run the rounds that a proof takes, otherwise a few. Each test prints its seed;
// RINGMQ_SEED=n runs it again with that one.
//
// Start at powercut_test.go, then child_test.go and ledger_test.go.
package rigtest
