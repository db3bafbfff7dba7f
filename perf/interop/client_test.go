package interop

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// client is a third-party client library, as far as the stories need it. What it gives out is closed at the end of
// the test that asked.
type client interface {
	name() string
	// createTopic uses the library's own administration.
	createTopic(t *testing.T, n *node, topic string, queues int)
	producer(t *testing.T, n *node) producer
	// consume starts a push consumer. handle is called from many goroutines. An orderly consumer has not handled a
	// message, as far as its library knows, before handle returns.
	consume(t *testing.T, n *node, s subscription, handle func(got)) consumer
	puller(t *testing.T, n *node, topic string) puller
}

// sendTimeout is longer than the libraries' default of 3 s, so that a machine with other work to do fails no story.
const sendTimeout = 8 * time.Second

// producer sends; all methods may be called at once.
type producer interface {
	send(m message) (ack, error)
	// sendAsync is the callback way of the library; it returns when the callback was called.
	sendAsync(m message) (ack, error)
	sendOneway(m message) error
	sendBatch(ms []message) (ack, error)
}

// consumer is a running push consumer.
type consumer interface {
	// queues are the queues of the subscribed topic that it holds.
	queues() ([]int, error)
	// stop closes it orderly: offsets are committed, the group is left. The end of the test does it otherwise.
	stop()
}

// puller reads any queue of one topic at any offset.
type puller interface {
	queues() ([]int, error)
	// pull reads some messages from offset on; next is where to go on. At the end of a queue it may wait for long, as
	// the libraries do.
	pull(queue int, offset int64) (found []got, next int64, err error)
}

// pullBatch is the most messages that a puller asks for at once.
const pullBatch = 32

// message is what a story sends.
type message struct {
	Topic string            `json:"topic"`
	Body  []byte            `json:"body"`
	Tags  string            `json:"tags,omitempty"`
	Keys  []string          `json:"keys,omitempty"`
	Props map[string]string `json:"props,omitempty"`
	Flag  int               `json:"flag,omitempty"`
	Delay int               `json:"delay,omitempty"` // level; 0: none
	// Queue is where to send it, nil for the library's choice.
	Queue *int `json:"-"`
}

// ack is what a producer was told.
type ack struct {
	Status      string `json:"status"` // SEND_OK and the like, the Java client's names
	Queue       int    `json:"queue"`
	Offset      int64  `json:"offset"`
	MsgID       string `json:"msgId"`
	OffsetMsgID string `json:"offsetMsgId"`
}

// got is what a consumer was given. Props hold all properties, the library's own too.
type got struct {
	Topic      string            `json:"topic"`
	Queue      int               `json:"queue"`
	Offset     int64             `json:"offset"`
	Body       []byte            `json:"body"`
	Props      map[string]string `json:"props"`
	Flag       int               `json:"flag"`
	MsgID      string            `json:"msgId"`
	Reconsumed int               `json:"reconsumed"`
}

// subscription is a consumer's wish.
type subscription struct {
	group, topic string
	tags         string // empty for all
	sql          string // an expression on properties, instead of tags
	broadcast    bool
	orderly      bool // one message of a queue after the other
	failBelow    int  // a message fails that was tried less often than that
	maxTries     int  // then it is dead; 0: the library's default
	fromFirst    bool // CONSUME_FROM_FIRST_OFFSET; else the default, CONSUME_FROM_LAST_OFFSET
}

// clients are the libraries under test.
var clients = []client{goClient{}, &javaClient{}}

// eachClient runs a story once with every client, side by side.
func eachClient(t *testing.T, story func(t *testing.T, c client)) {
	t.Helper()
	t.Parallel()
	for _, c := range clients {
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			story(t, c)
		})
	}
}

var serial atomic.Int64

// unique makes names for topics, groups and client instances that no other story uses.
func unique(t testing.TB, prefix string) string {
	name := strings.NewReplacer("/", "-", "=", "-").Replace(t.Name())
	return fmt.Sprintf("%s-%s-%d", prefix, name, serial.Add(1))
}

// bodyOf is the body of the message with this id: it starts with the id, the rest follows from it, so that a reader
// who knows the id knows every byte.
func bodyOf(id string, bytes int) []byte {
	b := append([]byte(id), '\n')
	if len(b) >= bytes {
		return b
	}
	head := len(b)
	b = append(b, make([]byte, bytes-head)...)
	rand.NewChaCha8(sha256.Sum256([]byte(id))).Read(b[head:])
	return b
}

// idOf is the opposite of bodyOf; it fails when one byte differs.
func idOf(body []byte) (string, error) {
	id, _, found := strings.Cut(string(body), "\n")
	if !found {
		return "", fmt.Errorf("a body that nobody sent: %.60q", body)
	}
	if string(bodyOf(id, len(body))) != string(body) {
		return id, fmt.Errorf("the body of %s (%d bytes) is not what was sent", id, len(body))
	}
	return id, nil
}
