package interop

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
	"time"
)

// Request codes of the remoting protocol that stories send by hand.
const (
	codeSend           = 10
	codePull           = 11
	codeQueryOffset    = 14
	codeCreateTopic    = 17
	codeMaxOffset      = 30
	codeHeartbeat      = 34
	codeConsumerIDs    = 38
	codeGetRoute       = 105
	codeUnknown        = 9999
	codeNotSupported   = 3 // answer: REQUEST_CODE_NOT_SUPPORTED
	rawTimeout         = 10 * time.Second
	rawFrameLimitBytes = 16 << 20
)

type fields map[string]string

// header is the JSON form of a remoting header.
type header struct {
	Code      int    `json:"code"`
	Language  string `json:"language"`
	Version   int    `json:"version"`
	Opaque    int    `json:"opaque"`
	Flag      int    `json:"flag"`
	Remark    string `json:"remark,omitempty"`
	ExtFields fields `json:"extFields,omitempty"`
}

// answer is a decoded frame.
type answer struct {
	header
	Body []byte
}

// raw is a bare connection that speaks just enough of the protocol to ask the questions that no client offers, and to
// say what no client would. One goroutine.
type raw struct {
	net.Conn
	opaque int
}

func dialRaw(addr string) (*raw, error) {
	c, err := net.DialTimeout("tcp", addr, rawTimeout)
	if err != nil {
		return nil, err
	}
	return &raw{Conn: c}, nil
}

func mustDial(t testing.TB, addr string) *raw {
	t.Helper()
	r, err := dialRaw(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

func (r *raw) close() { r.Conn.Close() }

// frame encodes a request.
func frame(h header, body []byte) []byte {
	h.Language, h.Version = "JAVA", 513
	head, err := json.Marshal(h)
	if err != nil {
		panic(err) // strings and ints always encode
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(head)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	return append(append(b, head...), body...)
}

// call sends one request and reads one answer.
func (r *raw) call(code int, f fields, body []byte) (answer, error) {
	r.opaque++
	r.SetDeadline(time.Now().Add(rawTimeout))
	if _, err := r.Write(frame(header{Code: code, Opaque: r.opaque, ExtFields: f}, body)); err != nil {
		return answer{}, err
	}
	a, err := r.read()
	if err == nil && a.Opaque != r.opaque {
		err = fmt.Errorf("answer to %d, asked was %d", a.Opaque, r.opaque)
	}
	return a, err
}

func (r *raw) read() (answer, error) {
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return answer{}, err
	}
	total := binary.BigEndian.Uint32(prefix[:])
	head := binary.BigEndian.Uint32(prefix[4:]) & 0xFFFFFF // the top byte is the header's encoding
	if total > rawFrameLimitBytes || head > total-4 {
		return answer{}, fmt.Errorf("frame of %d bytes with a header of %d", total, head)
	}
	rest := make([]byte, total-4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return answer{}, err
	}
	a := answer{Body: rest[head:]}
	if err := json.Unmarshal(rest[:head], &a.header); err != nil {
		return answer{}, fmt.Errorf("header %q: %w", rest[:head], err)
	}
	return a, nil
}

// send is a valid request 10 for queue 0 of topic.
func sendFields(topic string) fields {
	return fields{
		"producerGroup": "raw", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
		"sysFlag": "0", "bornTimestamp": strconv.FormatInt(time.Now().UnixMilli(), 10), "flag": "0",
		"properties": "", "reconsumeTimes": "0", "unitMode": "false", "batch": "false", "maxReconsumeTimes": "16",
	}
}

// committed is the offset that the broker holds for a group and queue, -1 for none.
func (r *raw) committed(group, topic string, queue int) (int64, error) {
	a, err := r.call(codeQueryOffset, fields{
		"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(queue), "setZeroIfNotFound": "false",
	}, nil)
	if err != nil {
		return 0, err
	}
	if a.Code == 22 { // QUERY_NOT_FOUND
		return -1, nil
	}
	if a.Code != 0 {
		return 0, fmt.Errorf("committed offset of %s %s/%d: code %d, %s", group, topic, queue, a.Code, a.Remark)
	}
	return strconv.ParseInt(a.ExtFields["offset"], 10, 64)
}

// maxOffset is the offset that the next message of a queue will get.
func (r *raw) maxOffset(topic string, queue int) (int64, error) {
	a, err := r.call(codeMaxOffset, fields{"topic": topic, "queueId": strconv.Itoa(queue)}, nil)
	if err != nil {
		return 0, err
	}
	if a.Code != 0 {
		return 0, fmt.Errorf("max offset of %s/%d: code %d, %s", topic, queue, a.Code, a.Remark)
	}
	return strconv.ParseInt(a.ExtFields["offset"], 10, 64)
}

// members are the client ids of a consumer group.
func (r *raw) members(group string) ([]string, error) {
	a, err := r.call(codeConsumerIDs, fields{"consumerGroup": group}, nil)
	if err != nil {
		return nil, err
	}
	var list struct{ ConsumerIDList []string }
	if a.Code != 0 {
		return nil, fmt.Errorf("members of %s: code %d, %s", group, a.Code, a.Remark)
	}
	return list.ConsumerIDList, json.Unmarshal(a.Body, &list)
}

// allCommitted is nil once group has consumed all of topic and said so.
func (r *raw) allCommitted(group, topic string, queues int) error {
	for q := range queues {
		high, err := r.maxOffset(topic, q)
		if err != nil {
			return err
		}
		at, err := r.committed(group, topic, q)
		if err != nil {
			return err
		}
		if high > 0 && at != high {
			return fmt.Errorf("group %s stands at %d of %d in queue %d", group, at, high, q)
		}
	}
	return nil
}
