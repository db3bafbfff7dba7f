package wire

import "strconv"

// Command.Version is the place of the sender's release in a list that only grows: each release
// stands one behind its own snapshot. The ones that change what is said between broker and client:
const (
	V3_0_11         = 37  // from here on a registration's body is a RegisterBody
	V3_1_8_Snapshot = 62  // from here on a client can report its running state
	V3_4_9          = 121 // from here on maxReconsumeTimes of a request counts
	V4_1_0_Snapshot = 232 // SQL92 consumers refuse to pull from an older broker
	V4_9_4          = 401 // from here on name servers quote integer keys in routes
	V5_3_1          = 475 // later clients understand GO_AWAY
	HigherVersion   = 612 // and all that follow
)

// BrokerVersion is the ordinal of V5_5_0. Every answer carries it: clients judge by it what the
// broker can do.
const BrokerVersion = 513

// firstVersions is the start of the list, before it became regular.
var firstVersions = [...]string{
	"V3_0_0_SNAPSHOT", "V3_0_0_ALPHA1", "V3_0_0_BETA1", "V3_0_0_BETA2", "V3_0_0_BETA3",
	"V3_0_0_BETA4", "V3_0_0_BETA5", "V3_0_0_BETA6_SNAPSHOT", "V3_0_0_BETA6",
	"V3_0_0_BETA7_SNAPSHOT", "V3_0_0_BETA7", "V3_0_0_BETA8_SNAPSHOT", "V3_0_0_BETA8",
	"V3_0_0_BETA9_SNAPSHOT", "V3_0_0_BETA9", "V3_0_0_FINAL",
}

// VersionName returns the stock name of a release, such as V5_5_0.
func VersionName(ordinal int32) string {
	switch {
	case ordinal < 0:
		return strconv.Itoa(int(ordinal))
	case int(ordinal) < len(firstVersions):
		return firstVersions[ordinal]
	case ordinal < 46: // 3.0.1 to 3.0.15
		return versionName(ordinal, 3, 0, 1+(ordinal-16)/2)
	case ordinal < 86: // 3.1.0 to 3.2.9
		n := (ordinal - 46) / 2
		return versionName(ordinal, 3, 1+n/10, n%10)
	case ordinal < 212: // 3.3.1 to 3.9.9, without any x.0
		n := (ordinal - 86) / 2
		return versionName(ordinal, 3, 3+n/9, 1+n%9)
	case ordinal < HigherVersion: // 4.0.0 to 5.9.9
		n := (ordinal - 212) / 2
		return versionName(ordinal, 4+n/100, n/10%10, n%10)
	}
	return "HIGHER_VERSION"
}

func versionName(ordinal, major, minor, patch int32) string {
	name := []byte{'V'}
	name = strconv.AppendInt(name, int64(major), 10)
	name = strconv.AppendInt(append(name, '_'), int64(minor), 10)
	name = strconv.AppendInt(append(name, '_'), int64(patch), 10)
	if ordinal%2 == 0 {
		name = append(name, "_SNAPSHOT"...)
	}
	return string(name)
}
