package faultfs

import (
	"runtime"
	"strings"
)

// self is how the names of this package's functions begin. Its tests are in a package of their own.
const self = "ringmq/store/vfs/faultfs."

// site names the function that asked for a sync and the kind of sync: "sidefile.writeTemp:sync". Moving
// lines about does not change it; two syncs of one kind in one function share it. The kinds are sync,
// syncdir, syncfs and flush.
func site(kind string) string {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, self) || !more {
			name := frame.Function
			return name[strings.LastIndexByte(name, '/')+1:] + ":" + kind
		}
	}
}
