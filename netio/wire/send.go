package wire

import "strconv"

// SendRequest is the header of SEND_MESSAGE (10, long names), of SEND_MESSAGE_V2 (310) and
// SEND_BATCH_MESSAGE (320, both with one-letter names). Its texts are views into the command.
type SendRequest struct {
	ProducerGroup         []byte
	Topic                 []byte
	DefaultTopic          []byte // template of a topic that is made on the way
	DefaultTopicQueueNums int32  // how many queues the client would like it to have
	QueueID               int32  // negative: the broker picks
	SysFlag               int32
	BornTimestamp         int64 // ms
	Flag                  int32
	Properties            []byte // nil when absent
	ReconsumeTimes        int32
	UnitMode              bool
	MaxReconsumeTimes     int32 // -1 when absent
	Batch                 bool  // decides what the body is, whatever the code
	BrokerName            []byte
}

// Places of the fields in sendLong and sendShort.
const (
	sendProducerGroup = iota
	sendTopic
	sendDefaultTopic
	sendDefaultTopicQueueNums
	sendQueueID
	sendSysFlag
	sendBornTimestamp
	sendFlag
	sendProperties
	sendReconsumeTimes
	sendUnitMode
	sendMaxReconsumeTimes
	sendBatch
	sendBrokerName
	sendFields
)

var sendLong = [sendFields]string{
	"producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag",
	"bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes",
	"batch", "bname",
}

var sendShort = [sendFields]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"}

const sendRequired seen = 1<<(sendFlag+1) - 1 // the first eight

// sendNames returns the names that requests of this code use.
func sendNames(code Code) []string {
	if code == SendMessageV2 || code == SendBatchMessage {
		return sendShort[:]
	}
	return sendLong[:]
}

// sendPlace returns the place of a name, -1 for one that is not ours.
func sendPlace(short bool, key []byte) int {
	if short {
		if len(key) == 1 && key[0] >= 'a' && key[0] <= 'n' {
			return int(key[0] - 'a')
		}
		return -1
	}
	for i := range sendLong {
		if string(key) == sendLong[i] {
			return i
		}
	}
	return -1
}

// Parse reads the header of a request of any of the three codes. It goes over the fields once and
// allocates only to complain.
func (h *SendRequest) Parse(c *Command) error {
	*h = SendRequest{MaxReconsumeTimes: -1}
	names := sendNames(c.Code)
	short := len(names[0]) == 1
	var have seen
	for i := range c.Fields {
		f := &c.Fields[i]
		place := sendPlace(short, f.Key)
		if place < 0 || f.Value == nil {
			continue
		}
		if err := h.take(place, names[place], f.Value); err != nil {
			return err
		}
		have.mark(place)
	}
	if name := have.lacks(names, sendRequired); name != "" {
		return missing(name)
	}
	return nil
}

func (h *SendRequest) take(place int, name string, v []byte) (err error) {
	var n int64
	switch place {
	case sendProducerGroup:
		h.ProducerGroup = v
	case sendTopic:
		h.Topic = v
	case sendDefaultTopic:
		h.DefaultTopic = v
	case sendDefaultTopicQueueNums:
		n, err = integer(name, v, 32)
		h.DefaultTopicQueueNums = int32(n)
	case sendQueueID:
		n, err = integer(name, v, 32)
		h.QueueID = int32(n)
	case sendSysFlag:
		n, err = integer(name, v, 32)
		h.SysFlag = int32(n)
	case sendBornTimestamp:
		h.BornTimestamp, err = integer(name, v, 64)
	case sendFlag:
		n, err = integer(name, v, 32)
		h.Flag = int32(n)
	case sendProperties:
		h.Properties = v
	case sendReconsumeTimes:
		n, err = integer(name, v, 32)
		h.ReconsumeTimes = int32(n)
	case sendUnitMode:
		h.UnitMode = isTrue(v)
	case sendMaxReconsumeTimes:
		n, err = integer(name, v, 32)
		h.MaxReconsumeTimes = int32(n)
	case sendBatch:
		h.Batch = isTrue(v)
	case sendBrokerName:
		h.BrokerName = v
	}
	return err
}

// Append sets the fields of c, under the names that its code asks for.
func (h *SendRequest) Append(c *Command) {
	n := sendNames(c.Code)
	c.SetBytes(n[sendProducerGroup], h.ProducerGroup)
	c.SetBytes(n[sendTopic], h.Topic)
	c.SetBytes(n[sendDefaultTopic], h.DefaultTopic)
	c.SetInt(n[sendDefaultTopicQueueNums], int64(h.DefaultTopicQueueNums))
	c.SetInt(n[sendQueueID], int64(h.QueueID))
	c.SetInt(n[sendSysFlag], int64(h.SysFlag))
	c.SetInt(n[sendBornTimestamp], h.BornTimestamp)
	c.SetInt(n[sendFlag], int64(h.Flag))
	if h.Properties != nil {
		c.SetBytes(n[sendProperties], h.Properties)
	}
	c.SetInt(n[sendReconsumeTimes], int64(h.ReconsumeTimes))
	c.SetBool(n[sendUnitMode], h.UnitMode)
	if h.MaxReconsumeTimes >= 0 {
		c.SetInt(n[sendMaxReconsumeTimes], int64(h.MaxReconsumeTimes))
	}
	c.SetBool(n[sendBatch], h.Batch)
	c.setSome(n[sendBrokerName], h.BrokerName)
}

// SendAnswer is the header of an answer to a send. Stock clients take it apart for the codes
// SUCCESS, FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE and FLUSH_SLAVE_TIMEOUT. Empty optional texts
// are left out. Texts are views.
type SendAnswer struct {
	MsgID         []byte // id that holds the store's address and offset; one per message of a batch, with commas
	QueueID       int32  // the queue it went to
	QueueOffset   int64  // of the first message of a batch
	TransactionID []byte // optional: the client's own message id
	BatchUniqID   []byte // optional: id of an inner batch
	RecallHandle  []byte // optional: takes a timer message back
	Region        []byte // optional: property MSG_REGION
	TraceOn       bool   // sent along with the region
}

// Parse reads the header of an answer.
func (h *SendAnswer) Parse(c *Command) error {
	r := reader{c: c}
	*h = SendAnswer{
		MsgID:       r.bytes("msgId"),
		QueueID:     r.int32("queueId"),
		QueueOffset: r.int64("queueOffset"),
		TraceOn:     r.boolOr("TRACE_ON", false),
	}
	h.TransactionID, _ = c.Get("transactionId")
	h.BatchUniqID, _ = c.Get("batchUniqId")
	h.RecallHandle, _ = c.Get("recallHandle")
	h.Region, _ = c.Get("MSG_REGION")
	return r.err
}

// Append sets the fields of c. It does not allocate once the command is warm.
func (h *SendAnswer) Append(c *Command) {
	c.SetBytes("msgId", h.MsgID)
	c.SetInt("queueId", int64(h.QueueID))
	c.SetInt("queueOffset", h.QueueOffset)
	c.setSome("transactionId", h.TransactionID)
	c.setSome("batchUniqId", h.BatchUniqID)
	c.setSome("recallHandle", h.RecallHandle)
	if len(h.Region) > 0 {
		c.SetBytes("MSG_REGION", h.Region)
		c.SetBool("TRACE_ON", h.TraceOn)
	}
}

// AppendFrame adds the frame of answer c with the fields of h to dst: what c.Append writes after h.Append(c),
// but in the JSON form without a look at each field on the way, as every send has one. c, which has no
// fields and no body, is not to be used afterwards. It does not allocate once c and dst are warm.
func (h *SendAnswer) AppendFrame(dst []byte, c *Command) []byte {
	if c.Encoding != JSON {
		h.Append(c)
		return c.Append(dst)
	}
	start := len(dst)
	dst = append(dst, make([]byte, prefixBytes)...)
	dst = c.openJSON(dst)
	dst = append(dst, `,"extFields":{"msgId":`...)
	dst = appendQuoted(dst, h.MsgID)
	dst = append(dst, `,"queueId":"`...)
	dst = strconv.AppendInt(dst, int64(h.QueueID), 10)
	dst = append(dst, `","queueOffset":"`...)
	dst = strconv.AppendInt(dst, h.QueueOffset, 10)
	dst = append(dst, '"')
	dst = appendSome(dst, `,"transactionId":`, h.TransactionID)
	dst = appendSome(dst, `,"batchUniqId":`, h.BatchUniqID)
	dst = appendSome(dst, `,"recallHandle":`, h.RecallHandle)
	if len(h.Region) > 0 {
		dst = appendSome(dst, `,"MSG_REGION":`, h.Region)
		dst = append(dst, `,"TRACE_ON":"`...)
		dst = strconv.AppendBool(dst, h.TraceOn)
		dst = append(dst, '"')
	}
	dst = append(dst, '}')
	return c.endHead(c.closeJSON(dst), start, JSON, 0)
}

// appendSome writes a JSON member that is left out when empty.
func appendSome(dst []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	return appendQuoted(append(dst, name...), value)
}
