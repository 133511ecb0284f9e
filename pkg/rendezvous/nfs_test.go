package rendezvous

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// nfsServer is a file server whose clients, in memory, go by the caching rules of
// NFS at their worst: a client trusts what it remembers until a rule makes it ask, however
// long that takes. Tests of what several hosts do with one directory use it in place of
// mounts, which need privileges and whose caches expire by time.
//
// The rules are those of the Linux client with close-to-open consistency:
//
//   - Written data reach the server when the file is closed.
//   - Opening a file or a directory asks the server for its attributes.
//   - A name is looked up once. That it exists, or is missing, is remembered until the
//     client learns that the directory has changed: by opening it, by changing it itself, or
//     from the reply to another request there.
//   - A client learns of a change of a directory from its change attribute. If that is a
//     time, two changes in one tick look like one.
//   - A request whose reply is lost is sent again, and fails because it has succeeded.
type nfsServer struct {
	// Tick is the number of changes that share one value of the change attribute; 0 or 1 is
	// a server whose attribute changes with every change.
	Tick uint64
	// LoseReplies makes the client repeat every second request that adds or removes a name.
	LoseReplies bool

	mu       sync.Mutex
	root     *node
	changes  uint64
	requests int
}

// node is a file or a directory.
type node struct {
	children map[string]*node // nil for files
	data     []byte
	names    int
	change   uint64
}

// Mount returns a new client with nothing in its caches.
func (s *nfsServer) Mount() *nfsClient {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		s.root = &node{children: map[string]*node{}, names: 1}
	}
	return &nfsClient{server: s, dirs: map[*node]*cache{}}
}

// changed stamps a directory whose names have changed.
func (s *nfsServer) changed(dir *node) {
	s.changes++
	dir.change = s.changes / max(1, s.Tick)
}

// lost reports whether the reply to a request that succeeded is lost.
func (s *nfsServer) lost() bool {
	s.requests++
	return s.LoseReplies && s.requests%2 == 0
}

// nfsClient is the mount of a host. Paths are absolute.
type nfsClient struct {
	server *nfsServer
	dirs   map[*node]*cache
}

// cache is what a client knows of a directory.
type cache struct {
	change  uint64 // as the server last reported it
	version int    // of what the client knows; grows when it learns of a change
	names   map[string]entry
}

// entry is what a client found under a name; its node is nil if there was none.
type entry struct {
	*node
	version int
}

// dir returns the cache of a directory.
func (c *nfsClient) dir(d *node) *cache {
	if c.dirs[d] == nil {
		c.dirs[d] = &cache{change: d.change, names: map[string]entry{}}
	}
	return c.dirs[d]
}

// learn compares the change attribute of a directory with what the client knew.
func (c *nfsClient) learn(d *node) *cache {
	k := c.dir(d)
	if k.change != d.change {
		k.change = d.change
		k.version++
	}
	return k
}

// lookup returns what the client takes to be under a name; nil for nothing.
func (c *nfsClient) lookup(d *node, name string) *node {
	k := c.dir(d)
	if e, known := k.names[name]; known && e.version == k.version {
		return e.node
	}
	k = c.learn(d)
	k.names[name] = entry{d.children[name], k.version}
	return d.children[name]
}

// walk returns the node of a path as the client knows it.
func (c *nfsClient) walk(op, p string) (*node, error) {
	at := c.server.root
	for name := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		if name == "" {
			continue
		}
		if at.children == nil {
			return nil, &fs.PathError{Op: op, Path: p, Err: fmt.Errorf("not a directory: %w", fs.ErrInvalid)}
		}
		if at = c.lookup(at, name); at == nil {
			return nil, &fs.PathError{Op: op, Path: p, Err: fs.ErrNotExist}
		}
	}
	return at, nil
}

// change runs a request that changes the names in the directory of p, and fails with again
// if its reply is lost.
func (c *nfsClient) change(op, p string, again error, request func(dir *node, name string) error) error {
	d, err := c.walk(op, path.Dir(p))
	if err != nil {
		return err
	}
	name := path.Base(p)
	if err = request(d, name); err == nil {
		c.server.changed(d)
		if again != nil && c.server.lost() {
			err = again
		}
	}
	k := c.learn(d)
	k.version++ // its own changes it knows of, whatever the attribute
	k.names[name] = entry{d.children[name], k.version}
	if err != nil {
		return &fs.PathError{Op: op, Path: p, Err: err}
	}
	return nil
}

// add adds a name for a node.
func add(n *node) func(dir *node, name string) error {
	return func(dir *node, name string) error {
		if dir.children[name] != nil {
			return fs.ErrExist
		}
		dir.children[name] = n
		n.names++
		return nil
	}
}

// Mkdir creates a directory.
func (c *nfsClient) Mkdir(dir string) error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.change("mkdir", dir, fs.ErrExist, add(&node{children: map[string]*node{}}))
}

// Visit opens and closes a directory.
func (c *nfsClient) Visit(dir string) error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	d, err := c.walk("open", dir)
	if err == nil {
		c.learn(d)
	}
	return err
}

// Create creates a file, and fails if it exists. A lost reply does not disturb it: the
// server knows the request again.
func (c *nfsClient) Create(p string) (io.WriteCloser, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	n := &node{}
	if err := c.change("create", p, nil, add(n)); err != nil {
		return nil, err
	}
	return &handle{server: c.server, node: n}, nil
}

// Append opens a file to write at its end, and creates it if it is missing.
func (c *nfsClient) Append(p string) (io.WriteCloser, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	d, err := c.walk("open", path.Dir(p))
	if err != nil {
		return nil, err
	}
	n := d.children[path.Base(p)] // the server creates, and knows best
	if n == nil {
		n = &node{}
		if err := c.change("open", p, nil, add(n)); err != nil {
			return nil, err
		}
	}
	return &handle{server: c.server, node: n}, nil
}

// Read opens a file and returns its content from offset on.
func (c *nfsClient) Read(p string, offset, limit int64) ([]byte, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	n, err := c.walk("open", p)
	if err != nil {
		return nil, err
	}
	if int64(len(n.data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: p, Err: fs.ErrInvalid}
	}
	return append([]byte(nil), n.data[min(offset, int64(len(n.data))):]...), nil
}

// Truncate sets the size of a file.
func (c *nfsClient) Truncate(p string, size int64) error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	n, err := c.walk("truncate", p)
	if err == nil {
		n.data = n.data[:size]
	}
	return err
}

// Link gives a file a second name.
func (c *nfsClient) Link(from, to string) error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	n, err := c.walk("link", from)
	if err != nil {
		return err
	}
	return c.change("link", to, fs.ErrExist, add(n))
}

// Names opens a file and returns how many names it has.
func (c *nfsClient) Names(p string) (int, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	n, err := c.walk("open", p)
	if err != nil {
		return 0, err
	}
	return n.names, nil
}

// Remove removes a name.
func (c *nfsClient) Remove(p string) error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.change("remove", p, fs.ErrNotExist, func(dir *node, name string) error {
		n := dir.children[name]
		if n == nil {
			return fs.ErrNotExist
		}
		n.names--
		delete(dir.children, name)
		return nil
	})
}

// handle is a file that a client writes.
type handle struct {
	server *nfsServer
	node   *node
	dirty  []byte
}

// Write keeps the data on the client.
func (h *handle) Write(p []byte) (int, error) {
	h.dirty = append(h.dirty, p...)
	return len(p), nil
}

// Close sends the data to the server.
func (h *handle) Close() error {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.node.data = append(h.node.data, h.dirty...)
	h.dirty = nil
	return nil
}

// List returns the sorted paths of all files on the server.
func (s *nfsServer) List() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := list(s.root, "")
	slices.Sort(all)
	return all
}

func list(d *node, dir string) (all []string) {
	for name, n := range d.children {
		p := dir + "/" + name
		if n.children == nil {
			all = append(all, p)
		} else {
			all = append(all, list(n, p)...)
		}
	}
	return all
}
