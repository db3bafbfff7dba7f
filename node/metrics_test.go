package node_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
)

// exported returns the names of our metrics on a page, without the endings of histograms.
func exported(page string) map[string]bool {
	names := map[string]bool{}
	histogram := regexp.MustCompile(`^(ringmq_\w+_(?:seconds|bytes))_(?:bucket|sum|count)$`)
	for line := range strings.Lines(page) {
		name, _, _ := strings.Cut(line, "{")
		name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
		if m := histogram.FindStringSubmatch(name); m != nil {
			name = m[1]
		}
		if strings.HasPrefix(name, "ringmq_") || strings.HasPrefix(name, "rocketmq_") {
			names[name] = true
		}
	}
	return names
}

// loaded is the metrics page of a node that has done what there is to do: sends, pulls, a commit, a delayed message.
func loaded(t *testing.T) string {
	t.Helper()
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"adminListen": "127.0.0.1:0"}})
	c := n.Client()
	for range 100 {
		c.Send("T", 0, "hello")
	}
	if records, _ := c.Pull("G", "T", 0, 0); len(records) == 0 {
		t.Fatal("nothing was pulled")
	}
	c.Must(wire.UpdateConsumerOffset, &wire.UpdateOffsetRequest{ConsumerGroup: []byte("G"), Topic: []byte("T"), QueueID: 0, CommitOffset: 40}, nil)
	status, page := get(t, n, "metrics")
	if status != http.StatusOK {
		t.Fatalf("metrics: %d", status)
	}
	return page
}

// TestMetricsPageListsAll: docs/operate/metrics.md has every metric that a loaded node shows, and no other.
func TestMetricsPageListsAll(t *testing.T) {
	text, err := os.ReadFile("../docs/operate/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:ringmq|rocketmq)_\\w+)`").FindAllStringSubmatch(string(text), -1) {
		if listed[m[1]] {
			t.Errorf("%s is listed twice", m[1])
		}
		listed[m[1]] = true
	}
	page := loaded(t)
	shown := exported(page)
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if !listed[name] {
			t.Errorf("%s is not in docs/operate/metrics.md", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !shown[name] {
			t.Errorf("docs/operate/metrics.md lists %s, which no node shows", name)
		}
	}
	for name, want := range map[string]string{
		`rocketmq_consumer_lag_messages{cluster="DefaultCluster",node_type="broker",node_id="b",consumer_group="G",topic="T"}`: "60",
		`ringmq_store_stage_seconds_count{cluster="DefaultCluster",node_type="broker",node_id="b",stage="flush"}`:              "",
		`ringmq_net_owed_seconds_count{cluster="DefaultCluster",node_type="broker",node_id="b",listener="broker"}`:             "100",
	} {
		value, found := "", false
		for line := range strings.Lines(page) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				value, found = strings.TrimSpace(rest), true
			}
		}
		if !found || value == "0" || want != "" && value != want {
			t.Errorf("%s is %q, want %s", name, value, want)
		}
	}
}

// TestDashboardAndAlertsNameWhatIsThere: a panel or a rule about a metric that no node shows is empty for ever.
func TestDashboardAndAlertsNameWhatIsThere(t *testing.T) {
	shown := exported(loaded(t))
	for _, file := range []string{"../docs/operate/grafana-dashboard.json", "../docs/operate/alerts.yml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON", file)
		}
		names := regexp.MustCompile(`\b(?:ringmq|rocketmq)_\w+`).FindAllString(string(text), -1)
		for _, name := range names {
			name = regexp.MustCompile(`_(seconds|bytes)_(bucket|sum|count)$`).ReplaceAllString(name, "_$1")
			if !shown[name] {
				t.Errorf("%s names %s, which no node shows", file, name)
			}
		}
		if len(names) < 10 {
			t.Errorf("%s names %d metrics: it was not read", file, len(names))
		}
	}
}
