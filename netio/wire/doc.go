// Package wire holds the bytes of the RocketMQ remoting protocol: frames, both forms of header,
// codes, typed header fields and JSON bodies. It does no I/O and knows nobody who does.
//
//	0          4        5            8              8+n
//	+----------+--------+------------+--------------+---- ... ----+
//	| total    | form   | n          | header       | body        |
//	| int32    | 1 byte | 3 bytes    | n bytes      |             |
//	+----------+--------+------------+--------------+---- ... ----+
//	  all numbers are big-endian; total does not count its own four bytes
//
// A header carries a code, an opaque number that pairs request and answer, flags, a remark for
// people, and fields: texts by name. It is a JSON object (form 0) or binary (form 1).
//
// The path of a request: FrameBytes says how much to wait for, Command.Parse takes the frame apart
// in place, a typed header such as SendRequest takes the fields, Command.Answer and SendAnswer.Append
// build the answer, Command.Append makes its frame. None of these steps allocates once the commands
// are warm.
//
// What comes from the network is untrusted: lengths are checked before use, JSON nests at most
// maxDepth deep, a header has at most maxFields fields, and Unmarshal allocates in proportion to its
// input. What a stock client may send out of habit (the dialect of fastjson, numbers as texts) is
// accepted.
//
// Start at command.go and frame.go; headerjson.go and headerbin.go are the two forms; send.go and
// pull.go are the hot typed headers; scanner.go and unmarshal.go read the dialect.
package wire
