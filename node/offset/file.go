package offset

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ringmq/netio/wire"
	"ringmq/store/sidefile"
	"ringmq/store/vfs"
)

// file is consumerOffset.json. A stock broker leaves the queue numbers without quotes, which is no JSON, and
// reads both forms; quotes are written here. Member names are in alphabetical order, as stock has them;
// groupTopicMap is for the human reader, stock ignores it too.
type file struct {
	DataVersion wire.DataVersion    `json:"dataVersion"`
	GroupTopics map[string][]string `json:"groupTopicMap"`
	Offsets     map[string]offsets  `json:"offsetTable"` // by topic@group
	Pull        map[string]offsets  `json:"pullOffsetTable"`
}

// separator stands between topic and group; neither may contain it.
const separator = "@"

func (k key) String() string { return k.topic + separator + k.group }

func parseKey(s string) (k key, ok bool) {
	k.topic, k.group, ok = strings.Cut(s, separator)
	return k, ok && k.topic != "" && k.group != ""
}

// Load reads the table from the file at path, or from its backup; neither there is an empty table. Nothing is
// written before it has returned, because only then there is a Table.
func Load(fsys vfs.FS, path string, o Options) (*Table, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	t := &Table{fsys: fsys, path: path, opts: o}
	var f file
	_, backup, err := sidefile.Read(fsys, path, func(b []byte) error {
		f = file{}
		return wire.Unmarshal(b, &f)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("offset: %w", sidefile.Remedy(err, " to start without consumer offsets"))
	}
	if backup {
		o.Log.Warn("consumer offsets: the file is missing or damaged, read its backup", "path", path)
	}
	t.version = f.DataVersion
	t.commits.groups.Store(t.group(f.Offsets))
	t.pulls.groups.Store(t.group(f.Pull))
	return t, nil
}

// keyed splits the keys of a table of the file. What is no topic@group belongs to nobody and is dropped.
func (t *Table) keyed(table map[string]offsets) map[key]offsets {
	keyed := make(map[key]offsets, len(table))
	for text, offs := range table {
		k, ok := parseKey(text)
		if !ok {
			t.opts.Log.Warn("consumer offsets: dropped an entry that names no topic and group", "path", t.path, "key", text)
			continue
		}
		keyed[k] = offs
	}
	return keyed
}

func (t *Table) group(table map[string]offsets) *map[string]topics {
	groups := map[string]topics{}
	for k, offs := range t.keyed(table) {
		if groups[k.group] == nil {
			groups[k.group] = topics{}
		}
		byQueue := make(queues, len(offs))
		for queue, offset := range offs {
			if queue < 0 || offset < 0 {
				t.opts.Log.Warn("consumer offsets: dropped a negative number", "path", t.path, "key", k.String(), "queue", queue, "offset", offset)
				continue
			}
			at := new(atomic.Int64)
			at.Store(offset)
			byQueue[queue] = at
		}
		groups[k.group][k.topic] = byQueue
	}
	return &groups
}

// Persist writes the table to its file if it has changed since the last time; durable on return. Commits go
// on meanwhile. Any goroutine may call it.
func (t *Table) Persist() error {
	t.persist.Lock()
	defer t.persist.Unlock()
	// Read before the offsets: a commit in between is in the file now and makes one write too many later.
	changes := t.changes.Load()
	if changes == t.persisted {
		return nil
	}
	t.version.Counter++
	t.version.Timestamp = t.opts.Now().UnixMilli()
	if err := sidefile.WriteJSON(t.fsys, t.path, t.file()); err != nil {
		return fmt.Errorf("offset: persist %s: %w", t.path, err)
	}
	t.persisted = changes
	return nil
}

func (t *Table) file() file {
	f := file{t.version, map[string][]string{}, t.commits.table(), t.pulls.table()}
	for group, byTopic := range *t.commits.groups.Load() {
		f.GroupTopics[group] = slices.Sorted(maps.Keys(byTopic))
	}
	return f
}
