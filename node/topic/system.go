package topic

import "strings"

// Topics that the stock broker 5.5.0 makes for itself.
const (
	Default        = "TBW102" // the template that producers of unknown topics name
	Schedule       = "SCHEDULE_TOPIC_XXXX"
	Half           = "RMQ_SYS_TRANS_HALF_TOPIC"
	HalfOp         = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	selfTest       = "SELF_TEST_TOPIC"
	benchmark      = "BenchmarkTest"
	offsetMoved    = "OFFSET_MOVED_EVENT"
	checkMaxTime   = "TRANS_CHECK_MAX_TIME_TOPIC"
	rocksHalf      = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
	rocksHalfOp    = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
	trace          = "RMQ_SYS_TRACE_TOPIC"
	checkpoint     = "CHECKPOINT_TOPIC"
	wheelTimer     = "rmq_sys_wheel_timer"
	systemPrefix   = "rmq_sys_"
	revivePrefix   = "rmq_sys_REVIVE_LOG_"
	syncPrefix     = "rmq_sys_SYNC_BROKER_MEMBER_"
	replySuffix    = "_REPLY_TOPIC"
	scheduleQueues = 18
)

var (
	systemNames = set(Default, Schedule, benchmark, Half, trace, HalfOp, checkMaxTime, selfTest, offsetMoved,
		checkpoint, rocksHalf, rocksHalfOp)
	sendForbidden = set(Schedule, Half, HalfOp, checkMaxTime, selfTest, offsetMoved, rocksHalf, rocksHalfOp)
)

func set(names ...string) map[string]bool {
	s := make(map[string]bool, len(names))
	for _, n := range names {
		s[n] = true
	}
	return s
}

// IsSystem tells whether name is a system topic on every broker. A broker has a few more of its own: see
// Table.IsSystem.
func IsSystem(name string) bool { return systemNames[name] || strings.HasPrefix(name, systemPrefix) }

// SendForbidden tells whether clients may not send to the topic.
func SendForbidden(name string) bool { return sendForbidden[name] }

// SystemOptions says which system topics this broker has.
type SystemOptions struct {
	Broker, Cluster string
	DefaultQueues   int32  // of the template TBW102: defaultTopicQueueNums
	ReviveQueues    int32  // reviveQueueNum
	AutoCreate      bool   // autoCreateTopicEnable: TBW102 may serve as a template
	ClusterTopic    bool   // clusterTopicEnable: the topic named after the cluster can be read and written
	BrokerTopic     bool   // brokerTopicEnable: the same for the topic named after the broker
	Trace           string // the message trace topic; empty without traceTopicEnable
	Timer           bool   // timerWheelEnable
}

// topics lists the system topics with the queues and permissions of the stock broker 5.5.0.
func (o SystemOptions) topics() []Config {
	const rw, all = PermRead | PermWrite, PermRead | PermWrite | PermInherit
	named := func(on bool) Perm {
		if on {
			return all
		}
		return PermInherit
	}
	list := []Config{
		simple(selfTest, 1, rw),
		simple(benchmark, 1024, rw),
		simple(o.Cluster, 16, named(o.ClusterTopic)),
		simple(o.Broker, 1, named(o.BrokerTopic)),
		simple(offsetMoved, 1, rw),
		simple(Schedule, scheduleQueues, rw),
		simple(o.Cluster+replySuffix, 1, rw),
		simple(revivePrefix+o.Cluster, o.ReviveQueues, rw),
		simple(syncPrefix+o.Broker, 1, PermInherit),
		simple(Half, 1, rw),
		simple(HalfOp, 1, rw),
	}
	if o.AutoCreate {
		list = append(list, simple(Default, o.DefaultQueues, all))
	}
	if o.Trace != "" {
		list = append(list, simple(o.Trace, 1, rw))
	}
	if o.Timer {
		list = append(list, simple(wheelTimer, 1, rw))
	}
	return list
}

func simple(name string, queues int32, perm Perm) Config {
	return Config{Name: name, ReadQueues: queues, WriteQueues: queues, Perm: perm, FilterType: SingleTag}
}
