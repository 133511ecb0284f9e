package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/need"
)

// patience bounds every wait for the browser. Only a hang exceeds it.
const patience = 30 * time.Minute

// program is the browser, of Debian.
const program = "chromium-headless-shell"

// chromium is one browser for all tests of the package, started by the first that asks.
var chromium struct {
	once sync.Once
	ctx  context.Context
	err  error
	end  func()
}

func TestMain(m *testing.M) {
	if path := os.Getenv(reportVariable); path != "" {
		c, err := report(path)
		if err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(c)); err != nil {
			panic(err)
		}
		return
	}
	code := m.Run()
	if chromium.end != nil {
		chromium.end()
	}
	os.Exit(code)
}

func startChromium() {
	profile, err := os.MkdirTemp("", "page-test-")
	if err != nil {
		chromium.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.WSURLReadTimeout(patience),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1240, 1600))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, leave := chromedp.NewContext(allocator)
	chromium.ctx = ctx
	chromium.end = func() {
		_ = chromedp.Cancel(ctx) // asks the browser to end, and waits; Debian's wrapper does not pass signals on
		leave()
		end()
		os.RemoveAll(profile)
	}
	if err := chromedp.Run(ctx); err != nil {
		chromium.err = fmt.Errorf("start "+program+": %w", err)
	}
}

// tab is a page in the browser. What it logs as an error, what it throws, what its policy
// blocks and any request beyond the file fail the test.
type tab struct {
	t    testing.TB
	ctx  context.Context
	url  string
	lock sync.Mutex
	bad  []string
}

// open shows an HTML file, with the given fragment and before that actions done.
func open(t testing.TB, html []byte, fragment string, first ...chromedp.Action) *tab {
	t.Helper()
	need.EndToEnd(t, "to show the page in a browser")
	need.Tool(t, program)
	if chromium.once.Do(startChromium); chromium.err != nil {
		t.Fatal(chromium.err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(path, html, 0o644))
	ctx, leave := chromedp.NewContext(chromium.ctx)
	ctx, cancel := context.WithTimeout(ctx, patience)
	b := &tab{t: t, ctx: ctx, url: "file://" + path}
	t.Cleanup(func() {
		cancel()
		leave()
		b.lock.Lock()
		defer b.lock.Unlock()
		require.Empty(t, b.bad)
	})
	chromedp.ListenTarget(ctx, func(event any) {
		b.lock.Lock()
		defer b.lock.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.bad = append(b.bad, e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError { // warnings differ between versions
				b.bad = append(b.bad, e.Entry.Text)
			}
		case *network.EventRequestWillBeSent:
			url := e.Request.URL
			if scheme, _, _ := strings.Cut(url, ":"); scheme != "file" && scheme != "blob" && scheme != "data" {
				b.bad = append(b.bad, "request for "+url)
			}
		}
	})
	b.do(first...)
	b.do(chromedp.Navigate(b.url + fragment))
	return b
}

// show opens an HTML file and waits until its script has drawn it.
func show(t testing.TB, html []byte, fragment string, first ...chromedp.Action) *tab {
	t.Helper()
	b := open(t, html, fragment, first...)
	b.ready()
	return b
}

func (b *tab) ready() { b.wait(`document.documentElement.dataset.ready === "yes"`) }

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Run(b.ctx, actions...))
}

// wait waits until an expression is true, and no longer than until something went wrong.
func (b *tab) wait(expression string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		b.lock.Lock()
		bad := len(b.bad) > 0
		b.lock.Unlock()
		var ok bool
		err := chromedp.Run(b.ctx, chromedp.Evaluate("Boolean("+expression+")", &ok))
		return ok || bad || err != nil
	}, patience, 20*time.Millisecond, expression)
	require.True(b.t, get[bool](b, "Boolean("+expression+")"), "%s: %q", expression, b.bad)
}

func (b *tab) run(script string) {
	b.t.Helper()
	b.do(chromedp.Evaluate(script, nil))
}

// get returns the value of an expression.
func get[T any](b *tab, expression string) T {
	b.t.Helper()
	var v T
	b.do(chromedp.Evaluate(expression, &v))
	return v
}

// press clicks a button of a section that has the given text.
func (b *tab) press(section, text string) {
	b.t.Helper()
	require.True(b.t, get[bool](b, fmt.Sprintf(`(() => {
		const all = [...document.querySelectorAll("#%s button")].filter(e => e.textContent === %q);
		if (all.length) all[0].click();
		return all.length > 0;
	})()`, section, text)), "no button %q in %s", text, section)
}

// texts returns the text of the elements that match.
func (b *tab) texts(selector string) []string {
	b.t.Helper()
	return get[[]string](b, fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.textContent)`, selector))
}

func (b *tab) count(selector string) int {
	b.t.Helper()
	return len(b.texts(selector))
}

// download does what makes the page save a file, and returns the file.
func (b *tab) download(name string, by func()) []byte {
	b.t.Helper()
	dir := b.t.TempDir()
	b.do(browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(dir))
	by()
	var data []byte
	require.Eventually(b.t, func() bool {
		var err error
		data, err = os.ReadFile(filepath.Join(dir, name))
		return err == nil && len(data) > 0
	}, patience, 20*time.Millisecond, "no download of %s", name)
	return data
}

func scheme(name string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}})
}
