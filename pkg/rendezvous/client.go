package rendezvous

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// TokenVariable is the environment variable with the token of a store that is served over
// TCP. It is on no command line and in no log.
const TokenVariable = "CX_STORE_TOKEN" //nolint:gosec // G101: a name, not a secret

const scheme = "tcp://"

// Address returns the address of a store that is served at host:port.
func Address(hostPort string) string { return scheme + hostPort }

// OverTCP returns the host:port of the address of a store that is served over TCP.
func OverTCP(address string) (hostPort string, is bool) { return strings.CutPrefix(address, scheme) }

// messageTime is the maximum time for a message that does not wait for other ranks.
const messageTime = time.Minute

// Client is a Store that a Leader serves.
type Client struct {
	base  url.URL
	token string
	http  http.Client
}

var _ Store = (*Client)(nil)

// Join opens the store at an address: a Leader, whose token is in the environment, or an
// existing directory.
func Join(address string, getenv func(string) string) (Store, error) {
	host, tcp := OverTCP(address)
	if !tcp {
		if info, err := os.Stat(address); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("open store %s: no such directory; the shard that starts ranks creates it", address)
		}
		return OpenFile(address)
	}
	token := getenv(TokenVariable)
	if token == "" {
		return nil, fmt.Errorf("open store: %s is empty: the shard that starts ranks sets it", TokenVariable)
	}
	return Dial(host, token), nil
}

// Dial returns the store of the leader at host:port. It connects when it is used.
func Dial(host, token string) *Client {
	return &Client{
		base: url.URL{Scheme: "http", Host: host}, token: token,
		http: http.Client{Transport: &http.Transport{ // without a proxy
			DialContext:     (&net.Dialer{Timeout: messageTime}).DialContext,
			MaxConnsPerHost: connections / 2, IdleConnTimeout: restTime, // before the leader closes it
		}},
	}
}

// DialUp is Dial after something listens at the port.
func DialUp(ctx context.Context, hostPort, token string) (*Client, error) {
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", hostPort)
		if err == nil {
			return Dial(hostPort, token), conn.Close()
		}
		select {
		case <-ctx.Done():
			return nil, withoutAddress(err)
		case <-time.After(lastPoll):
		}
	}
}

func (c *Client) do(ctx context.Context, method, path, key string, query url.Values, body []byte) (int, []byte, error) {
	if err := checkKey(key); err != nil {
		return 0, nil, err
	}
	u := c.base
	u.Path, u.RawQuery = path+key, query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", bearerPrefix+c.token)
	if method != http.MethodGet {
		req.Header.Set(requestID, rand.Text())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxLength+1))
	switch {
	case err != nil:
	case len(content) > maxLength:
		err = fmt.Errorf("%w: a reply of more than %d bytes", ErrMalformed, maxLength)
	case resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusNoContent:
	case resp.StatusCode == http.StatusConflict:
		err = fs.ErrExist
	case resp.StatusCode == http.StatusInsufficientStorage:
		err = errFull
	case resp.StatusCode == http.StatusUnauthorized:
		err = fmt.Errorf("the store refuses the token in %s: %w", TokenVariable, fs.ErrPermission)
	default:
		err = fmt.Errorf("the store replies with status %d: %s", resp.StatusCode, content)
	}
	return resp.StatusCode, content, err
}

// ConnectionLost reports whether an error of a Client is that it does not reach its leader, which has ended, perhaps. Other
// errors are the leader's reply.
func ConnectionLost(err error) bool {
	_, of := errors.AsType[net.Error](err)
	return of || errors.Is(err, io.ErrUnexpectedEOF)
}

// Put implements Store.
func (c *Client) Put(ctx context.Context, key string, value []byte) error {
	_, _, err := c.do(ctx, http.MethodPut, valuePath, key, nil, value)
	return of("put", key, err)
}

// Get implements Store.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	for {
		switch status, value, err := c.do(ctx, http.MethodGet, valuePath, key, nil, nil); {
		case err != nil:
			return nil, fmt.Errorf("get %s: %w", key, errors.Join(ctx.Err(), err))
		case status == http.StatusOK:
			return value, nil
		}
	}
}

// Append implements Store.
func (c *Client) Append(key string, record []byte) error {
	err := checkRecord(record)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), messageTime)
		defer cancel()
		_, _, err = c.do(ctx, http.MethodPost, streamPath, key, nil, record)
	}
	return of("append", key, err)
}

// Records implements Store.
func (c *Client) Records(key string, offset int64) ([][]byte, int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), messageTime)
	defer cancel()
	_, data, err := c.do(ctx, http.MethodGet, streamPath, key, url.Values{fromParam: {strconv.FormatInt(offset, 10)}}, nil)
	if err != nil {
		return nil, offset, fmt.Errorf("records %s: %w", key, err)
	}
	records, next := split(data, offset)
	return records, next, nil
}

// Gather implements Store.
func (c *Client) Gather(ctx context.Context, name string, rank, world int, value []byte) ([][]byte, error) {
	if err := checkRank(name, rank, world); err != nil {
		return nil, err
	}
	// If the context ends before the reply, the loop finds out which ranks are missing.
	if err := c.Put(ctx, memberKey(name, rank), value); err != nil && !errors.Is(err, ctx.Err()) {
		return nil, fmt.Errorf("gather: %w", err)
	}
	query := url.Values{worldParam: {strconv.Itoa(world)}}
	for {
		all, err := c.gather(ctx, name, query)
		if err != nil && ctx.Err() != nil {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), messageTime)
			defer cancel()
			query.Set(atOnceParam, "1")
			if all, err = c.gather(last, name, query); err == nil && all.Missing != nil {
				return nil, &MissingError{Name: name, Ranks: all.Missing, World: world, Err: ctx.Err()}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("gather %s: %w", name, err)
		}
		if len(all.Values) == world {
			return all.Values, nil
		}
	}
}

func (c *Client) gather(ctx context.Context, name string, query url.Values) (gatherReply, error) {
	var all gatherReply
	_, content, err := c.do(ctx, http.MethodGet, gatherPath, name, query, nil)
	if err == nil {
		err = json.Unmarshal(content, &all)
	}
	return all, err
}

// Barrier implements Store.
func (c *Client) Barrier(ctx context.Context, name string, rank, world int) error {
	_, err := c.Gather(ctx, name, rank, world, nil)
	return err
}

// Dir implements Store.
func (c *Client) Dir() string { return Memory() }

// Close implements Store.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Memory returns a directory in memory that the processes of this host share, or the one of
// temporary files if there is none.
func Memory() string {
	const shm = "/dev/shm"
	if unix.Access(shm, unix.W_OK|unix.X_OK) == nil {
		return shm
	}
	return os.TempDir()
}
