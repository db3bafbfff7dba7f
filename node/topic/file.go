package topic

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"ringmq/netio/wire"
	"ringmq/store/sidefile"
	"ringmq/store/vfs"
)

// file is topics.json as the stock broker 5.5.0 writes it: members in alphabetical order, tabs.
type file struct {
	DataVersion wire.DataVersion   `json:"dataVersion"`
	Topics      map[string]*Config `json:"topicConfigTable"`
}

// Load reads the table from the file at path, or from its backup; neither there is an empty table. The system
// topics that the file lacks are added in memory and get into it with the next change, as in a stock broker.
func Load(fsys vfs.FS, path string, o Options) (*Table, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	t := &Table{fsys: fsys, path: path, opts: o, own: map[string]bool{}}
	s, err := t.read()
	if err != nil {
		return nil, err
	}
	added := false
	for _, c := range o.System.topics() {
		t.own[c.Name] = true
		if s.topics[c.Name] == nil {
			c.Attributes = map[string]string{}
			s.topics[c.Name], added = &c, true
		}
	}
	// A stock broker that once ran with autoCreateTopicEnable=false has left its template without the right.
	if d := s.topics[Default]; d != nil && o.System.AutoCreate && !d.Perm.Inherits() {
		c := *d
		c.Perm |= PermInherit
		s.topics[Default], added = &c, true
	}
	if added {
		s.version = t.nextVersion(s.version)
	}
	t.now.Store(s)
	return t, nil
}

func (t *Table) read() (*state, error) {
	f := file{Topics: map[string]*Config{}}
	_, backup, err := sidefile.Read(t.fsys, t.path, func(b []byte) (err error) {
		f, err = parse(b)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("topic: %w", sidefile.Remedy(err, " to start without topics"))
	}
	if backup {
		t.opts.Log.Warn("topics: the file is missing or damaged, read its backup", "path", t.path)
	}
	return &state{f.Topics, f.DataVersion}, nil
}

func (t *Table) write(s *state) error {
	return sidefile.WriteJSON(t.fsys, t.path, file{s.version, s.topics})
}

// parse reads the stock file, whose members may be missing: Java's defaults stand in for them.
func parse(b []byte) (file, error) {
	f := file{}
	if err := wire.Unmarshal(b, &f); err != nil {
		return file{}, err
	}
	topics := make(map[string]*Config, len(f.Topics))
	for name, c := range f.Topics {
		if c == nil {
			continue
		}
		c.Name = name
		if c.Attributes == nil {
			c.Attributes = map[string]string{}
		}
		topics[name] = c
	}
	f.Topics = topics
	return f, nil
}

// SetDefaults gives c what the stock broker's class is born with: it stands in for members that are missing.
func (c *Config) SetDefaults() {
	*c = Config{ReadQueues: 16, WriteQueues: 16, Perm: PermRead | PermWrite, FilterType: SingleTag}
}
