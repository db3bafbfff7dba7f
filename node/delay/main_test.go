package delay_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when something is left running. The exceptions are of a pool that gnet keeps for the whole
// process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}
