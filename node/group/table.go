// Package group is the table of consumer groups (what exists and with which settings) and of their members
// (who is connected and subscribed to what).
//
// The settings are durable: subscriptionGroup.json in the shape of the stock broker 5.5.0, one immutable map
// in memory that readers load without a lock. The members are what live connections said in their
// heartbeats; they die with the connections. Start with Table, then members.go.
package group

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/netio/wire"
	"ringmq/store/sidefile"
	"ringmq/store/vfs"
)

// ErrNotExist means that the group is unknown and may not be created by use.
var ErrNotExist = errors.New("group: does not exist")

// ExpireAfter is the stock broker's channelExpiredTimeout.
const ExpireAfter = 120 * time.Second

// Options says how a Table works; the zero value of a field means "choose for me".
type Options struct {
	AutoCreate  bool                    // autoCreateSubscriptionGroup: Ensure creates what is missing
	CheckName   func(name string) error // judges a name before a group is created; nil admits all
	ExpireAfter time.Duration           // channelExpiredTimeout: how long a member may be silent; default ExpireAfter
	Now         func() time.Time
	Log         *slog.Logger
}

// Table holds the settings of all consumer groups.
type Table struct {
	// Set by Load, constant afterwards.
	fsys vfs.FS
	path string
	opts Options

	// Stored by whoever holds mu, loaded by anyone.
	now atomic.Pointer[state]

	// mu is held by one writer over the whole change, its file included, so that file and memory go the same
	// way. Readers never wait for it.
	mu sync.Mutex
}

// state is one version of the table. Nobody changes it once it is published.
type state struct {
	groups    map[string]*Config
	forbidden map[string]map[string]int32 // group, topic, bits; kept for the stock broker, not judged here
	version   wire.DataVersion
}

// Get returns the group, or nil. Callers never change what it points to. It takes no lock and allocates
// nothing.
func (t *Table) Get(name []byte) *Config { return t.now.Load().groups[string(name)] }

// Snapshot returns all groups and the version of the table as of one moment. Callers never change either.
func (t *Table) Snapshot() (map[string]*Config, wire.DataVersion) {
	s := t.now.Load()
	return s.groups, s.version
}

// Ensure returns the group, which it creates with the stock settings if that is allowed: under AutoCreate,
// and always for the broker's own groups. Durable on return. ErrNotExist says that it is not to be had.
func (t *Table) Ensure(name string) (*Config, error) {
	if c := t.now.Load().groups[name]; c != nil {
		return c, nil
	}
	if !t.opts.AutoCreate && !IsSystem(name) {
		return nil, fmt.Errorf("%w: %s", ErrNotExist, name)
	}
	if t.opts.CheckName != nil {
		if err := t.opts.CheckName(name); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotExist, err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.now.Load()
	if c := was.groups[name]; c != nil {
		return c, nil // another heartbeat was faster
	}
	c := defaults(name)
	next := &state{maps.Clone(was.groups), was.forbidden, t.nextVersion(was.version)}
	next.groups[name] = &c
	if err := t.write(next); err != nil {
		return nil, fmt.Errorf("group: create %s: %w", name, err)
	}
	t.now.Store(next)
	return &c, nil
}

func (t *Table) nextVersion(v wire.DataVersion) wire.DataVersion {
	v.Counter++
	v.Timestamp = t.opts.Now().UnixMilli()
	return v
}

// file is subscriptionGroup.json as the stock broker 5.5.0 writes it.
type file struct {
	DataVersion wire.DataVersion            `json:"dataVersion"`
	Forbidden   map[string]map[string]int32 `json:"forbiddenTable"`
	Groups      map[string]*Config          `json:"subscriptionGroupTable"`
}

// Load reads the table from the file at path, or from its backup; neither there is an empty table. The
// predefined groups that the file lacks are added in memory and get into it with the next change.
func Load(fsys vfs.FS, path string, o Options) (*Table, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.ExpireAfter == 0 {
		o.ExpireAfter = ExpireAfter
	}
	t := &Table{fsys: fsys, path: path, opts: o}
	s, err := t.read()
	if err != nil {
		return nil, err
	}
	for _, name := range predefined {
		if s.groups[name] == nil {
			c := defaults(name)
			s.groups[name] = &c
		}
	}
	t.now.Store(s)
	return t, nil
}

func (t *Table) read() (*state, error) {
	var f file
	_, backup, err := sidefile.Read(t.fsys, t.path, func(b []byte) (err error) {
		f, err = parse(b)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("group: %w", sidefile.Remedy(err, " to start without groups"))
	}
	if backup {
		t.opts.Log.Warn("groups: the file is missing or damaged, read its backup", "path", t.path)
	}
	s := &state{f.Groups, f.Forbidden, f.DataVersion}
	if s.groups == nil {
		s.groups = map[string]*Config{}
	}
	return s, nil
}

func parse(b []byte) (file, error) {
	var f file
	if err := wire.Unmarshal(b, &f); err != nil {
		return file{}, err
	}
	for name, c := range f.Groups {
		if c == nil {
			delete(f.Groups, name)
			continue
		}
		c.Name = name
	}
	return f, nil
}

func (t *Table) write(s *state) error {
	forbidden := s.forbidden
	if forbidden == nil {
		forbidden = map[string]map[string]int32{}
	}
	return sidefile.WriteJSON(t.fsys, t.path, file{s.version, forbidden, s.groups})
}
