package wire

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// RegisterBody is the body of REGISTER_BROKER (103). It has two forms: a JSON object, or one zlib
// stream of
//
//	block DataVersion as JSON
//	int32 n, n blocks "name readQueues writeQueues perm filterType attributes", attributes as JSON
//	block list of filter servers as JSON
//	int32 n, n blocks mapping of a static topic as JSON
//
// where a block is an int32 length and that many bytes.
type RegisterBody struct {
	FilterServerList            []string           `json:"filterServerList,omitzero"`
	TopicConfigSerializeWrapper TopicConfigWrapper `json:"topicConfigSerializeWrapper"`
}

// A compressed registration may unpack to unpackBase + unpackFactor times its size: lists of topics
// whose names are counted up shrink to a thirtieth.
const (
	unpackBase   = 64 << 10
	unpackFactor = 64
)

var errRegisterEnd = errors.New("wire: registration: ends early")

// ParseRegisterBody reads either form. The request's header tells which it is, except that stock
// brokers 5.x with compressedRegister=true say compressed=false of a compressed body.
func ParseRegisterBody(body []byte, compressed bool) (*RegisterBody, error) {
	b := &RegisterBody{}
	if !compressed {
		return b, Unmarshal(body, b)
	}
	zr, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("wire: registration: %w", err)
	}
	limit := min(MaxFrameBytes, unpackBase+unpackFactor*len(body))
	plain, err := io.ReadAll(io.LimitReader(zr, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("wire: registration: %w", err)
	}
	if len(plain) > limit {
		return nil, fmt.Errorf("wire: registration: %d bytes unpack to more than %d", len(body), limit)
	}
	return b, b.unpack(plain)
}

func (b *RegisterBody) unpack(plain []byte) error {
	w := &b.TopicConfigSerializeWrapper
	version, rest, ok := cut32(plain)
	if !ok {
		return errRegisterEnd
	}
	if err := Unmarshal(version, &w.DataVersion); err != nil {
		return fmt.Errorf("wire: registration: data version: %w", err)
	}
	if rest, ok = w.unpackTopics(rest); !ok {
		return errRegisterEnd
	}
	filters, _, ok := cut32(rest)
	if !ok {
		return errRegisterEnd
	}
	if err := Unmarshal(filters, &b.FilterServerList); err != nil && !errors.Is(err, ErrNoValue) {
		return fmt.Errorf("wire: registration: filter servers: %w", err)
	}
	return nil // mappings of static topics are not taken over
}

func (w *TopicConfigWrapper) unpackTopics(b []byte) (rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, false
	}
	count, b := binary.BigEndian.Uint32(b), b[4:]
	w.TopicConfigTable = make(map[string]TopicConfig)
	for range count { // a lying count meets the end of b
		var line []byte
		if line, b, ok = cut32(b); !ok {
			return nil, false
		}
		if t, ok := parseTopicLine(string(line)); ok {
			w.TopicConfigTable[t.TopicName] = t
		}
	}
	return b, true
}

// parseTopicLine reads a topic as the stock class does: a line that is short or has no number where
// one belongs is not a topic, and attributes that cannot be read are none.
func parseTopicLine(line string) (t TopicConfig, ok bool) {
	f := strings.SplitN(line, " ", 6)
	if len(f) < 5 {
		return t, false
	}
	t.SetDefaults()
	t.TopicName, t.TopicFilterType = f[0], f[4]
	for i, into := range []*int32{&t.ReadQueueNums, &t.WriteQueueNums, &t.Perm} {
		n, ok := parseInt([]byte(f[1+i]), 32)
		if *into = int32(n); !ok {
			return t, false
		}
	}
	if len(f) == 6 && Unmarshal([]byte(f[5]), &t.Attributes) != nil {
		t.Attributes = nil
	}
	return t, true
}

// Encode writes either form.
func (b *RegisterBody) Encode(compressed bool) ([]byte, error) {
	if !compressed {
		return json.Marshal(b)
	}
	plain, err := b.pack()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zw := zlib.NewWriter(&out)
	if _, err = zw.Write(plain); err == nil {
		err = zw.Close()
	}
	return out.Bytes(), err
}

func (b *RegisterBody) pack() ([]byte, error) {
	w := &b.TopicConfigSerializeWrapper
	plain, err := appendJSONBlock(nil, w.DataVersion)
	if err != nil {
		return nil, err
	}
	plain = binary.BigEndian.AppendUint32(plain, uint32(len(w.TopicConfigTable)))
	for _, t := range w.TopicConfigTable {
		attributes, err := json.Marshal(t.Attributes)
		if err != nil {
			return nil, err
		}
		if t.Attributes == nil {
			attributes = []byte("{}")
		}
		plain = appendBlock(plain, fmt.Appendf(nil, "%s %d %d %d %s %s",
			t.TopicName, t.ReadQueueNums, t.WriteQueueNums, t.Perm, t.TopicFilterType, attributes))
	}
	filters := b.FilterServerList
	if filters == nil {
		filters = []string{}
	}
	if plain, err = appendJSONBlock(plain, filters); err != nil {
		return nil, err
	}
	return binary.BigEndian.AppendUint32(plain, 0), nil // no static topics
}

func appendJSONBlock(dst []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return appendBlock(dst, text), err
}

func appendBlock(dst, block []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
	return append(dst, block...)
}
