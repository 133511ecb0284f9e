package githubtest

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"
)

// Status answers with a status and a body instead of the truth. headers are names and
// values in turn.
func Status(status int, body string, headers ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// HTML answers with a status and a page, as the front of GitHub does.
func HTML(status int) Fault {
	return Status(status, "<html><body>Unicorn!</body></html>", "Content-Type", "text/html")
}

// Primary refuses a request as the primary rate limit does, until reset.
func Primary(reset time.Time) Fault {
	return Status(http.StatusForbidden, `{"message":"API rate limit exceeded"}`,
		"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
}

// Secondary refuses a request as a secondary rate limit does, without a time.
func Secondary() Fault {
	return Status(http.StatusForbidden, `{"message":"You have exceeded a secondary rate limit.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`)
}

// Lost carries the request out and closes the connection without an answer.
func Lost() Fault {
	return func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		closeConnection()
	}
}

// Broken closes the connection without an answer and does nothing.
func Broken() Fault {
	return func(http.ResponseWriter, *http.Request, http.Handler) { closeConnection() }
}

// Cut closes the connection in the middle of the true answer.
func Cut() Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		whole := httptest.NewRecorder()
		next.ServeHTTP(whole, r)
		body := whole.Body.Bytes()
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		closeConnection()
	}
}

// Torn answers with the first half of the true answer, as a complete answer.
func Torn() Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		whole := httptest.NewRecorder()
		next.ServeHTTP(whole, r)
		for _, name := range []string{"Content-Type", "ETag", "Link"} {
			if v := whole.Header().Get(name); v != "" {
				w.Header().Set(name, v)
			}
		}
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
	}
}

// Stall begins an answer and never ends it. The client's timeout is what ends it: expire is
// called once the client waits.
func Stall(expire func()) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("{"))
		_ = http.NewResponseController(w).Flush()
		expire()
		<-r.Context().Done()
	}
}

func closeConnection() { panic(http.ErrAbortHandler) }
