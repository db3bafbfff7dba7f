package derive

import (
	"fmt"
	"testing"
)

// TestTags: a delayed message's entry holds the time of its delivery, any other the hash of its tags
// (values of the stock broker 5.5.0).
func TestTags(t *testing.T) {
	for _, tc := range []struct {
		topic, props string
		code         int64
		relative     bool
	}{
		{"T", "", 0, false},
		{"T", "TAGS\x01TagA\x02", 2598919, false},
		{"T", "TAGS\x01TagA\x02DELAY\x013\x02", 2598919, false},
		{scheduleTopic, "TAGS\x01TagA\x02DELAY\x013\x02", 10_000, true},
		{scheduleTopic, "DELAY\x0199\x02", 2 * 3600 * 1000, true},
		{scheduleTopic, "TAGS\x01TagA\x02DELAY\x010\x02", 2598919, false},
		{scheduleTopic, "TAGS\x01TagA\x02DELAY\x01x\x02", 2598919, false},
	} {
		if code, relative := StockLevels.Tags(tc.topic, []byte(tc.props)); code != tc.code || relative != tc.relative {
			t.Errorf("%s %q: %d %v, want %d %v", tc.topic, tc.props, code, relative, tc.code, tc.relative)
		}
	}
}

// TestLightQueues: names and offsets go by pairs; only light queues have offsets (stock broker 5.5.0).
func TestLightQueues(t *testing.T) {
	const offsets, names = "INNER_MULTI_QUEUE_OFFSET\x01", "INNER_MULTI_DISPATCH\x01"
	for _, tc := range []struct{ topic, props, want string }{
		{"T", names + "%LMQ%a,%LMQ%b\x02" + offsets + "3,0", "%LMQ%a@3 %LMQ%b@0 "},
		{"T", names + "Plain,%LMQ%b\x02" + offsets + ",7", "%LMQ%b@7 "},
		{"T", names + "%LMQ%a,%LMQ%b\x02" + offsets + "3", ""},
		{"T", names + "%LMQ%a\x02" + offsets + "-3", ""},
		{"T", names + "%LMQ%a\x02" + offsets + "99999999999999999999", ""},
		{"T", names + "%LMQ%a", ""},
		{"T", offsets + "3", ""},
		{"%RETRY%G", names + "%LMQ%a\x02" + offsets + "3", ""},
		{"rmq_sys_x", names + "%LMQ%a\x02" + offsets + "3", ""},
		{scheduleTopic, names + "%LMQ%a\x02" + offsets + "3", ""},
	} {
		got := ""
		for name, at := range LightQueues(tc.topic, []byte(tc.props)) {
			got += fmt.Sprintf("%s@%d ", name, at)
		}
		if got != tc.want {
			t.Errorf("%s %q: %q, want %q", tc.topic, tc.props, got, tc.want)
		}
	}
}
