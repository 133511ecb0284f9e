package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	tries        = 5                // of a request that may be repeated
	limitWaits   = 8                // for one request, until its rate limit lets it pass
	answerTime   = time.Minute      // for a complete answer of the API
	firstPause   = time.Second      // before a second try; doubled for each further one
	abusePause   = time.Minute      // after a secondary limit that does not say how long it lasts; doubled
	longestPause = 65 * time.Minute // a primary limit is reset within an hour
	maxAnswer    = 64 << 20         // bytes
)

// transport sends requests to the API of GitHub only, with the token, which only transport
// has. It reads each answer whole. It repeats what is safe to repeat: a GET that failed, and
// any request that a rate limit refused, since GitHub has then done nothing. If another
// request has no answer, the error is a *LostError. Answers to GETs are kept with their ETag,
// since polls of what has not changed then do not count for the rate limit.
type transport struct {
	api   *url.URL
	token Token
	next  http.RoundTripper
	clock Clock
	tell  func(string)

	mu   sync.Mutex
	kept map[string]answer // by URL
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

// LostError is the error of a request without a usable answer: GitHub may or may not have done
// what it asked for.
type LostError struct{ Err error }

func (e *LostError) Error() string { return "the answer was lost: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Err }

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.api.Scheme || req.URL.Host != t.api.Host {
		return nil, fmt.Errorf("%s is not the API at %s: the request was not sent", req.URL.Host, t.api.Host)
	}
	ctx := req.Context()
	for failures, waits := 0, 0; ; {
		a, err := t.once(req)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var pause time.Duration
		limit := ""
		if err == nil {
			pause, limit = limited(a, t.clock.Now(), waits)
		}
		switch {
		case limit != "":
			if waits++; waits > limitWaits {
				return nil, fmt.Errorf("%s persists after %d waits", limit, limitWaits)
			}
			t.tell(fmt.Sprintf("%s: waiting %s", limit, pause.Round(time.Second)))
		case err == nil && a.status < 500 && !(req.Method == http.MethodGet && a.torn()):
			return a.response(req), nil
		default:
			if err == nil && a.status >= 500 {
				err = fmt.Errorf("GitHub answers %d %s", a.status, http.StatusText(a.status))
			} else if err == nil {
				err = errors.New("GitHub's answer is truncated")
			}
			if dial, ok := errors.AsType[*net.OpError](err); req.Method != http.MethodGet {
				if ok && dial.Op == "dial" { // nothing was sent
					return nil, err
				}
				return nil, &LostError{err}
			}
			if failures++; failures == tries {
				if a.status >= 500 {
					return a.response(req), nil
				}
				return nil, fmt.Errorf("%w (%d tries)", err, tries)
			}
			pause = max(firstPause<<(failures-1), retryAfter(a.header, t.clock.Now()))
		}
		if err := t.clock.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (t *transport) once(req *http.Request) (answer, error) {
	ctx, cancel := t.clock.WithTimeout(req.Context(), answerTime)
	defer cancel()
	out := req.Clone(ctx)
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return answer{}, err
		}
		out.Body = body
	}
	out.Header.Set("Authorization", "Bearer "+t.token.value)
	key := req.URL.String()
	t.mu.Lock()
	old, known := t.kept[key]
	t.mu.Unlock()
	known = known && req.Method == http.MethodGet
	if known {
		out.Header.Set("If-None-Match", old.header.Get("ETag"))
	}
	resp, err := t.next.RoundTrip(out)
	if err == nil {
		defer resp.Body.Close()
		var body []byte
		if body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1)); err == nil {
			if len(body) > maxAnswer {
				return answer{}, fmt.Errorf("answer of more than %d bytes", maxAnswer)
			}
			a := answer{resp.StatusCode, resp.Header, t.token.hide(body)}
			if a.status == http.StatusNotModified && known {
				return old, nil
			}
			if req.Method == http.MethodGet && a.status == http.StatusOK && a.header.Get("ETag") != "" && !a.torn() {
				t.mu.Lock()
				t.kept[key] = a
				t.mu.Unlock()
			}
			return a, nil
		}
	}
	if ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	return answer{}, err
}

// torn reports whether the answer should be JSON but is not valid.
func (a answer) torn() bool {
	return a.status == http.StatusOK && strings.Contains(a.header.Get("Content-Type"), "json") && !json.Valid(a.body)
}

// response returns the answer for net/http, without the headers of rate limits. With them,
// go-github would refuse requests by itself, by the clock of this machine.
func (a answer) response(req *http.Request) *http.Response {
	header := a.header.Clone()
	for _, name := range []string{"X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Limit", "Retry-After"} {
		header.Del(name)
	}
	return &http.Response{
		Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: req,
	}
}

// limited returns the rate limit that refused a request, "" if none did, and how long to wait
// by the server's clock. waits counts the earlier waits of the request.
func limited(a answer, now time.Time, waits int) (time.Duration, string) {
	if a.status != http.StatusForbidden && a.status != http.StatusTooManyRequests {
		return 0, ""
	}
	var said struct {
		Message string `json:"message"`
		URL     string `json:"documentation_url"`
	}
	_ = json.Unmarshal(a.body, &said) // said stays empty if the body is HTML
	after, reset := retryAfter(a.header, now), a.header.Get("X-Ratelimit-Reset")
	secondary := strings.Contains(said.URL, "secondary-rate-limits") || strings.Contains(strings.ToLower(said.Message), "secondary rate limit")
	switch {
	case after > 0:
		return min(after, longestPause), "rate limit of GitHub"
	case a.header.Get("X-Ratelimit-Remaining") == "0" && reset != "":
		at, err := strconv.ParseInt(reset, 10, 64)
		if err != nil {
			return abusePause << waits, "rate limit of GitHub"
		}
		return min(max(time.Unix(at, 0).Sub(serverTime(a.header, now))+time.Second, time.Second), longestPause), "rate limit of GitHub"
	case secondary || a.status == http.StatusTooManyRequests:
		return min(abusePause<<waits, longestPause), "secondary rate limit of GitHub"
	default:
		return 0, ""
	}
}

// retryAfter returns the time in the header Retry-After, 0 without one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return min(time.Duration(n)*time.Second, longestPause)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(serverTime(h, now)), 0)
	}
	return 0
}

// serverTime returns when the server answered, by its clock.
func serverTime(h http.Header, now time.Time) time.Time {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		return at
	}
	return now
}
