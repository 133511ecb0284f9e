package rendezvous

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"path"
	"strconv"
	"sync"
	"time"
)

// Limits of a leader.
const (
	maxMessage = 64 << 20 // bytes of a value or a record
	maxStored  = 4 << 30  // bytes of all keys, values and streams
	maxKeys    = 1 << 22
	keyBytes   = 128              // estimated memory of a key beside its text
	hold       = 20 * time.Second // a request that waits is answered after that, and sent again
	headerTime = 10 * time.Second
	bodyTime   = 5 * time.Minute // for a message in either direction
	idleTime   = 5 * time.Minute // a connection that is quiet for longer is closed
	restTime   = 30 * time.Second
)

var errFull = errors.New("the store is full")

// Leader is a Store in the memory of this process, which it serves over TCP to all processes
// that know its token; see Dial. The connections are not encrypted.
type Leader struct {
	server  *http.Server
	address string
	token   string

	mu      sync.Mutex
	values  map[string]value
	streams map[string]*memoryStream
	waits   map[string]chan struct{} // by key that is missing: closed when it is put
	gathers map[string]*gathering
	keys    int
	stored  int64 // bytes
	full    int64 // maxStored, or less in tests
	leave   func(key string)

	encoding sync.Mutex
	encoded  struct {
		name  string
		world int
		text  []byte
	}
}

var _ Store = (*Leader)(nil)

// value is what was put under a key by the request with this id.
type value struct {
	data    []byte
	request string
}

// memoryStream is a stream, and the id of the request that appended its last record.
type memoryStream struct {
	data    []byte
	request string
}

type gathering struct {
	missing map[string]int // rank by key
	done    chan struct{}
}

// Lead starts a leader that listens on an address of this host, such as 127.0.0.1, at a
// free port. It holds connections of up to world ranks at a time.
func Lead(host string, world int) (*Leader, error) {
	l, err := LeadAt(net.JoinHostPort(host, "0"), rand.Text(), world)
	if err != nil {
		return nil, fmt.Errorf("open store: listen on network.store_address: %w", err)
	}
	return l, nil
}

// LeadAt is Lead at host:port, with a token that the others already have. Its error does not
// name the address.
func LeadAt(hostPort, token string, world int) (*Leader, error) {
	l, err := net.Listen("tcp", hostPort)
	if err != nil {
		return nil, withoutAddress(err)
	}
	s := &Leader{
		address: scheme + l.Addr().String(), token: token,
		values: map[string]value{}, streams: map[string]*memoryStream{}, waits: map[string]chan struct{}{}, gathers: map[string]*gathering{},
		full: maxStored,
	}
	s.server = &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, WriteTimeout: bodyTime, IdleTimeout: idleTime,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() { _ = s.server.Serve(newBounded(l, connections*world+connections)) }() // returns when it is closed
	return s, nil
}

// withoutAddress returns the cause of an error of package net, whose text is private.
func withoutAddress(err error) error {
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(name.Err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// Address is the address for Join in another process.
func (l *Leader) Address() string { return l.address }

// Env is the environment that a process needs to use Address. It is secret.
func (l *Leader) Env() map[string]string { return map[string]string{TokenVariable: l.token} }

// Dir implements Store.
func (l *Leader) Dir() string { return Memory() }

// Close implements Store: it ends all connections.
func (l *Leader) Close() error { return l.server.Close() }

// Put implements Store.
func (l *Leader) Put(ctx context.Context, key string, data []byte) error {
	err := ctx.Err()
	if err == nil {
		err = l.put(key, bytes.Clone(data), "")
	}
	return of("put", key, err)
}

// put stores a value. A request with an id may come twice.
func (l *Leader) put(key string, data []byte, request string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, exists := l.values[key]; exists {
		if request != "" && old.request == request {
			return nil
		}
		return fs.ErrExist
	}
	if err := l.take(key, len(data)); err != nil {
		return err
	}
	l.values[key] = value{data, request}
	if w := l.waits[key]; w != nil {
		close(w)
		delete(l.waits, key)
	}
	if g := l.gathers[path.Dir(key)]; g != nil {
		delete(g.missing, key)
		if len(g.missing) == 0 {
			close(g.done)
			delete(l.gathers, path.Dir(key))
		}
	}
	return nil
}

// take reserves room for a new key and its bytes, or for more bytes of one.
func (l *Leader) take(newKey string, n int) error {
	keys := 0
	if newKey != "" {
		keys, n = 1, n+len(newKey)+keyBytes
	}
	if n > maxMessage || l.keys+keys > maxKeys || l.stored+int64(n) > l.full {
		return errFull
	}
	l.keys += keys
	l.stored += int64(n)
	return nil
}

// Get implements Store.
func (l *Leader) Get(ctx context.Context, key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	l.mu.Lock()
	v, exists := l.values[key]
	if exists {
		l.mu.Unlock()
		return bytes.Clone(v.data), nil
	}
	w := l.waits[key]
	if w == nil {
		w = make(chan struct{})
		l.waits[key] = w
	}
	l.mu.Unlock()
	select {
	case <-w:
		return l.Get(ctx, key)
	case <-ctx.Done():
		return nil, of("get", key, ctx.Err())
	}
}

// OnLeave makes the leader call f when the connection of a client ends while the client waits for a key. f gets that
// key, and may be called by several goroutines at once.
func (l *Leader) OnLeave(f func(key string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave = f
}

func (l *Leader) left(key string) {
	l.mu.Lock()
	f := l.leave
	l.mu.Unlock()
	if f != nil {
		f(key)
	}
}

// Append implements Store.
func (l *Leader) Append(key string, record []byte) error {
	return of("append", key, l.append(key, record, ""))
}

func (l *Leader) append(key string, record []byte, request string) error {
	if err := errors.Join(checkKey(key), checkRecord(record)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, newKey := l.streams[key], ""
	if s == nil {
		s, newKey = &memoryStream{}, key
	}
	if request != "" && s.request == request {
		return nil
	}
	if err := l.take(newKey, len(record)+1); err != nil {
		return err
	}
	s.data = append(append(s.data, record...), '\n')
	s.request = request
	l.streams[key] = s
	return nil
}

// Records implements Store.
func (l *Leader) Records(key string, offset int64) ([][]byte, int64, error) {
	data, err := l.tail(key, offset)
	if err != nil {
		return nil, offset, of("records", key, err)
	}
	records, next := split(data, offset)
	return records, next, nil
}

func (l *Leader) tail(key string, offset int64) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.streams[key]
	if s == nil || offset >= int64(len(s.data)) || offset < 0 {
		return nil, nil
	}
	return s.data[offset:len(s.data):len(s.data)], nil // what is there never changes
}

// Gather implements Store.
func (l *Leader) Gather(ctx context.Context, name string, rank, world int, value []byte) ([][]byte, error) {
	if err := checkRank(name, rank, world); err != nil {
		return nil, err
	}
	if err := l.Put(ctx, memberKey(name, rank), value); err != nil {
		return nil, fmt.Errorf("gather: %w", err)
	}
	values, missing := l.gathered(ctx, name, world)
	if values == nil {
		return nil, &MissingError{Name: name, Ranks: missing, World: world, Err: ctx.Err()}
	}
	return values, nil
}

// gathered waits for the values of a gather. If ctx ends before, it returns the ranks that
// are missing.
func (l *Leader) gathered(ctx context.Context, name string, world int) (values [][]byte, missing []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if values, missing = l.members(name, world); len(missing) == 0 || ctx.Err() != nil {
		return values, missing
	}
	g := l.gathers[name]
	if g == nil {
		g = &gathering{missing: map[string]int{}, done: make(chan struct{})}
		for _, r := range missing {
			g.missing[memberKey(name, r)] = r
		}
		l.gathers[name] = g
	}
	l.mu.Unlock()
	select {
	case <-g.done:
	case <-ctx.Done():
	}
	l.mu.Lock()
	return l.members(name, world)
}

// members returns the values of a gather, or else the ranks whose values are missing.
func (l *Leader) members(name string, world int) (values [][]byte, missing []int) {
	values = make([][]byte, world)
	for r := range values {
		v, exists := l.values[memberKey(name, r)]
		if !exists {
			missing = append(missing, r)
		}
		values[r] = v.data
	}
	if missing != nil {
		return nil, missing
	}
	return values, nil
}

// Barrier implements Store.
func (l *Leader) Barrier(ctx context.Context, name string, rank, world int) error {
	_, err := l.Gather(ctx, name, rank, world, nil)
	return err
}

// Paths below which the leader serves keys, and parameters of requests.
const (
	valuePath    = "/value/"
	streamPath   = "/stream/"
	gatherPath   = "/gather/"
	requestID    = "Idempotency-Key" // also tells net/http that the request may be sent again
	fromParam    = "from"
	worldParam   = "world"
	atOnceParam  = "at-once"
	bearerPrefix = "Bearer "
)

// handler serves the store to clients with its token.
func (l *Leader) handler() http.Handler {
	mux := http.NewServeMux()
	receive := func(pattern string, store func(key string, data []byte, request string) error) {
		mux.HandleFunc(pattern+"{key...}", func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
			if err == nil {
				err = store(r.PathValue("key"), data, r.Header.Get(requestID))
			}
			reply(w, err)
		})
	}
	answer := func(path string, read func(r *http.Request, key string) ([]byte, error)) {
		mux.HandleFunc("GET "+path+"{key...}", func(w http.ResponseWriter, r *http.Request) {
			data, err := read(r, r.PathValue("key"))
			if err != nil {
				reply(w, err)
				return
			}
			send(w, data)
		})
	}
	receive("PUT "+valuePath, l.put)
	receive("POST "+streamPath, l.append)
	answer(valuePath, func(r *http.Request, key string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(r.Context(), hold)
		defer cancel()
		data, err := l.Get(ctx, key)
		if r.Context().Err() != nil {
			l.left(key)
		}
		return data, err
	})
	answer(streamPath, func(r *http.Request, key string) ([]byte, error) {
		from, err := strconv.ParseInt(r.FormValue(fromParam), 10, 64)
		if err != nil {
			return nil, err
		}
		return l.tail(key, from)
	})
	answer(gatherPath, l.answerGather)
	want := sha256.Sum256([]byte(bearerPrefix + l.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// gatherReply is the reply to a gather: the values, or the ranks that are missing.
type gatherReply struct {
	Values  [][]byte `json:"values"`
	Missing []int    `json:"missing"`
}

func (l *Leader) answerGather(r *http.Request, name string) ([]byte, error) {
	world, err := strconv.Atoi(r.FormValue(worldParam))
	world = min(world, maxKeys)
	if err := errors.Join(err, checkKey(name), checkRank(name, 0, world)); err != nil {
		return nil, err
	}
	wait := hold
	if r.FormValue(atOnceParam) != "" {
		wait = 0
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	var out gatherReply
	out.Values, out.Missing = l.gathered(ctx, name, world)
	return l.encode(name, out), nil
}

// encode encodes the reply to a gather. It keeps the last complete reply, since all ranks ask
// for the same values at about the same time.
func (l *Leader) encode(name string, out gatherReply) []byte {
	l.encoding.Lock()
	defer l.encoding.Unlock()
	if out.Values != nil && l.encoded.name == name && l.encoded.world == len(out.Values) {
		return l.encoded.text
	}
	text, _ := json.Marshal(out) // bytes and numbers always marshal
	if out.Values != nil {
		l.encoded.name, l.encoded.world, l.encoded.text = name, len(out.Values), text
	}
	return text
}

// reply answers a request that has no content, or failed.
func reply(w http.ResponseWriter, err error) {
	var tooLarge *http.MaxBytesError
	status := http.StatusBadRequest
	switch {
	case err == nil, errors.Is(err, context.DeadlineExceeded):
		status = http.StatusNoContent
	case errors.Is(err, fs.ErrExist):
		status = http.StatusConflict
	case errors.Is(err, errFull), errors.As(err, &tooLarge):
		status = http.StatusInsufficientStorage
	}
	w.WriteHeader(status)
	if status == http.StatusBadRequest {
		send(w, []byte(err.Error()))
	}
}

func send(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(data) // fails if the client has gone
}

// connections is the number of connections of a rank: one that waits and one that does not,
// and as many that it has abandoned.
const connections = 4

// bounded is a listener that closes connections beyond a limit at once.
type bounded struct {
	net.Listener

	free chan struct{}
}

func newBounded(l net.Listener, limit int) *bounded {
	return &bounded{l, make(chan struct{}, limit)}
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.free <- struct{}{}:
			return &boundedConn{Conn: c, free: sync.OnceFunc(func() { <-b.free })}, nil
		default:
			_ = c.Close()
		}
	}
}

type boundedConn struct {
	net.Conn

	free func()
}

func (c *boundedConn) Close() error {
	c.free()
	return c.Conn.Close()
}
