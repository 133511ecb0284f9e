package fleet_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/githubtest"
	"github.com/collectivex/collectivex/pkg/command"
	"github.com/collectivex/collectivex/pkg/fleet"
	"github.com/collectivex/collectivex/pkg/result"
)

// states returns what became of each artifact, by its directory or cell.
func states(f *fleet.Fetched) map[string]string {
	out := map[string]string{}
	for _, a := range f.Artifacts {
		key := a.Kind
		if a.Kind == fleet.KindCell {
			key = a.Cell
		}
		out[key] = a.State
	}
	return out
}

func allOf(state string) map[string]string {
	return map[string]string{"matrix": state, "aggregate": state, "local-host-bf16-n1": state, "local-host-collective-n1": state, "local-host-kv-shm-n1": state}
}

// A second fetch keeps what is unchanged, and replaces what was changed here or is newer
// there.
func TestFetchResumes(t *testing.T) {
	s, run := finished(t)
	dir := filepath.Join(t.TempDir(), "run")
	s.Fail("BLOB ", append([]githubtest.Fault{nil}, repeat(3, githubtest.HTML(503))...)...)
	f, err := s.fetch(run.ID, dir)
	require.NoError(t, err)
	want := allOf(fleet.StateFetched)
	want["local-host-bf16-n1"] = fleet.StateFailed
	require.Equal(t, want, states(f))
	require.ErrorContains(t, f.Err(), "run 1001 is incomplete: no cxshard-local-host-bf16-n1-1001-1")

	f, err = s.fetch(run.ID, dir)
	require.NoError(t, err)
	require.NoError(t, f.Err())
	want = allOf(fleet.StateKept)
	want["local-host-bf16-n1"] = fleet.StateFetched
	require.Equal(t, want, states(f))

	matrix := filepath.Join(dir, "matrix", "matrix_full.json")
	require.NoError(t, os.WriteFile(matrix, []byte("{}"), 0o644))
	f, err = s.fetch(run.ID, dir)
	require.NoError(t, err)
	require.Equal(t, fleet.StateFetched, states(f)["matrix"], "it was changed")
	require.Equal(t, fleet.StateKept, states(f)["aggregate"])

	// A further attempt of one cell, and a new dataset.
	run.Attempt = 2
	for _, name := range []string{fmt.Sprintf("cxshard-local-host-bf16-n1-%d-2", run.ID), fmt.Sprintf("cxsweep-aggregate-%d", run.ID)} {
		a := githubtest.NewArtifact(name, githubtest.Zip(map[string]string{"new": "x"}))
		a.ID = s.NewID()
		run.Artifacts = append(run.Artifacts, a)
	}
	f, err = s.fetch(run.ID, dir)
	require.NoError(t, err)
	want = allOf(fleet.StateKept)
	want["local-host-bf16-n1"], want["aggregate"] = fleet.StateFetched, fleet.StateFetched
	require.Equal(t, want, states(f))
	entries, err := os.ReadDir(filepath.Join(dir, "cells", "local-host-bf16-n1"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "the newest attempt alone")

	other := s.start()
	_, err = s.fetch(other.ID, dir)
	require.ErrorContains(t, err, "has the artifacts of run 1001; name another directory")

	left, err := filepath.Glob(filepath.Join(dir, ".cxgen-partial*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// Raw samples are fetched only if they are wanted: those of all attempts, beside the
// documents, of which newer ones leave them in place.
func TestFetchSamples(t *testing.T) {
	s, run := finished(t)
	dir := filepath.Join(t.TempDir(), "run")
	const cell = "local-host-bf16-n1"
	place := filepath.Join(dir, "cells", cell, result.SamplesDir)
	add := func(kind string, attempt int, files map[string]string) {
		a := githubtest.NewArtifact(fmt.Sprintf("%s-%s-%d-%d", kind, cell, run.ID, attempt), githubtest.Zip(files))
		a.ID = s.NewID()
		run.Artifacts = append(run.Artifacts, a)
	}
	all := append(fleet.Documents(), fleet.KindSamples)
	fetch := func(samples bool) map[string]string {
		kinds := fleet.Documents()
		if samples {
			kinds = all
		}
		f, err := s.client.Fetch(context.Background(), run.ID, dir, kinds, func(fleet.Artifact) {})
		require.NoError(t, err)
		require.NoError(t, f.Err())
		return states(f)
	}
	add("cxsamples", 1, map[string]string{"first.ndjson.gz": "1"})
	require.Equal(t, allOf(fleet.StateFetched), fetch(false))
	require.NoDirExists(t, place)

	want := allOf(fleet.StateKept)
	want[fleet.KindSamples] = fleet.StateFetched
	require.Equal(t, want, fetch(true))
	require.FileExists(t, filepath.Join(place, "first.ndjson.gz"))

	add("cxshard", 2, map[string]string{"a.json": "{}"})
	add("cxsamples", 2, map[string]string{"second.ndjson.gz": "2"})
	fetch(false)
	require.FileExists(t, filepath.Join(place, "first.ndjson.gz"))
	require.Equal(t, want, fetch(true), "the samples of the second attempt come, those of the first are kept")
	require.FileExists(t, filepath.Join(place, "first.ndjson.gz"))
	require.FileExists(t, filepath.Join(place, "second.ndjson.gz"))

	// Without documents, samples are of nothing.
	other := t.TempDir()
	s.Fail("BLOB ", append([]githubtest.Fault{nil}, repeat(3, githubtest.HTML(503))...)...)
	f, err := s.client.Fetch(context.Background(), run.ID, other, all, func(fleet.Artifact) {})
	require.NoError(t, err)
	require.Equal(t, fleet.StateFailed, states(f)[cell])
	require.Equal(t, fleet.StateFailed, states(f)[fleet.KindSamples])
	require.NoDirExists(t, filepath.Join(other, "cells", cell))
}

// A directory that was not fetched is not replaced.
func TestFetchSparesStrangers(t *testing.T) {
	s, run := finished(t)
	dir := t.TempDir()
	mine := filepath.Join(dir, "aggregate", "mine")
	require.NoError(t, os.Mkdir(filepath.Dir(mine), 0o755))
	require.NoError(t, os.WriteFile(mine, nil, 0o644))
	f, err := s.fetch(run.ID, dir)
	require.NoError(t, err)
	require.ErrorContains(t, f.Err(), "cxsweep-aggregate-1001")
	require.FileExists(t, mine)
}

// TestBrokenDownloads injects faults into the download of one artifact: it is repeated, or
// named.
func TestBrokenDownloads(t *testing.T) {
	for name, test := range map[string]struct {
		route string
		fault githubtest.Fault
		times int
		state string
		text  string
	}{
		"link expired":         {"BLOB ", githubtest.Status(403, "AuthenticationFailed"), 2, fleet.StateFetched, ""},
		"never a link":         {"BLOB ", githubtest.Status(403, "AuthenticationFailed"), 3, fleet.StateFailed, "the store answers 403 Forbidden (3 tries)"},
		"cut":                  {"BLOB ", githubtest.Cut(), 1, fleet.StateFetched, ""},
		"torn":                 {"BLOB ", githubtest.Torn(), 2, fleet.StateFetched, ""},
		"wrong digest":         {"BLOB ", githubtest.Status(200, "PK something else"), 3, fleet.StateFailed, "GitHub lists sha256:"},
		"gone from the store":  {"BLOB ", githubtest.Status(404, ""), 1, fleet.StateExpired, "GitHub has deleted it"},
		"gone from the API":    {"GET /zip", githubtest.Status(410, `{}`), 1, fleet.StateExpired, "GitHub has deleted it"},
		"not there":            {"GET /zip", githubtest.Status(404, `{}`), 1, fleet.StateFailed, "not found"},
		"API down for a while": {"GET /zip", githubtest.HTML(502), 3, fleet.StateFetched, ""},
		"no link":              {"GET /zip", githubtest.Status(302, ""), 1, fleet.StateFailed, "no link"},
		"no redirect":          {"GET /zip", githubtest.Status(200, "{}"), 1, fleet.StateFailed, "instead of a link"},
		"a link to nowhere":    {"GET /zip", githubtest.Status(302, "", "Location", "http://127.0.0.1:1/x?sig=secret"), 3, fleet.StateFailed, "download: "},
	} {
		t.Run(name, func(t *testing.T) {
			s, run := finished(t)
			s.Fail(test.route, repeat(test.times, test.fault)...)
			f, err := s.fetch(run.ID, t.TempDir())
			require.NoError(t, err)
			require.Equal(t, test.state, f.Artifacts[0].State, f.Artifacts[0].Error)
			require.Contains(t, f.Artifacts[0].Error, test.text)
			require.NotContains(t, f.Artifacts[0].Error, "secret", "a link is good for whoever has it")
			for _, a := range f.Artifacts[1:] {
				require.Equal(t, fleet.StateFetched, a.State, a.Error)
			}
			require.Equal(t, test.state != fleet.StateFetched, f.Err() != nil)
		})
	}
}

// A download that stalls is given up and repeated.
func TestStalledDownload(t *testing.T) {
	s, run := finished(t)
	s.Fail("BLOB ", githubtest.Stall(s.Clock.Expire))
	f, err := s.fetch(run.ID, t.TempDir())
	require.NoError(t, err)
	require.NoError(t, f.Err())
}

// entry is an entry of an archive.
type entry struct {
	name string
	mode fs.FileMode
	text string
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		w, err := z.CreateHeader(h)
		require.NoError(t, err)
		_, err = w.Write([]byte(e.text))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return out.Bytes()
}

// A hostile or damaged archive leaves no file anywhere, although its digest holds.
func TestHostileArchives(t *testing.T) {
	good := archive(t, entry{"a.json", 0o644, strings.Repeat("text ", 1000)})
	lies := bytes.Clone(good) // announces fewer bytes than it has, where readers look: in the directory at its end
	at := bytes.LastIndex(lies, []byte("PK\x01\x02"))
	copy(lies[at+24:], []byte{1, 0, 0, 0})
	bomb := bytes.Clone(good)
	copy(bomb[at+24:], []byte{0, 0, 0, 0xf0})
	for name, test := range map[string]struct {
		data []byte
		text string
	}{
		"zip slip":        {archive(t, entry{"ok.json", 0o644, "{}"}, entry{"../../evil.json", 0o644, "{}"}), "outside of its directory"},
		"absolute":        {archive(t, entry{"/tmp/evil.json", 0o644, "{}"}), "outside of its directory"},
		"backslashes":     {archive(t, entry{`..\evil.json`, 0o644, "{}"}), "outside of its directory"},
		"link":            {archive(t, entry{"l", 0o777 | fs.ModeSymlink, "/etc"}, entry{"l/evil", 0o644, "{}"}), "a link or a device"},
		"two of one name": {archive(t, entry{"a", 0o644, "{}"}, entry{"a", 0o644, "[]"}), "two entries"},
		"bomb":            {bomb, "unpacks to more than"},
		"lying bomb":      {lies, "damaged archive"},
		"bare file":       {[]byte(`{"version": 1}`), "not a zip archive"},
		"empty":           {nil, "not a zip archive"},
		"cut":             {good[:len(good)-30], "damaged archive"},
		"file as parent":  {archive(t, entry{"a", 0o644, "{}"}, entry{"a/b", 0o644, "{}"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, run := finished(t)
			a := githubtest.NewArtifact(fmt.Sprintf("cxshard-evil-%d-1", run.ID), test.data)
			a.ID = s.NewID()
			run.Artifacts = []*githubtest.Artifact{a}
			top := t.TempDir()
			f, err := s.fetch(run.ID, filepath.Join(top, "a", "b"))
			require.NoError(t, err)
			require.Equal(t, fleet.StateFailed, f.Artifacts[0].State)
			require.Contains(t, f.Artifacts[0].Error, test.text)
			require.NoError(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					require.Fail(t, "a file was left", path)
				}
				return err
			}))
		})
	}
}

// What has expired, and cells that left nothing, are named; names of other artifacts are
// nobody's directory.
func TestFetchNamesWhatIsMissing(t *testing.T) {
	s, run := finished(t)
	for _, a := range run.Artifacts {
		switch {
		case strings.HasPrefix(a.Name, "cxshard-local-host-bf16"):
			a.Expired = true
		case strings.HasPrefix(a.Name, "cxshard-local-host-collective"):
			a.Name = fmt.Sprintf("cxshard-../../evil-%d-1", run.ID)
		case strings.HasPrefix(a.Name, "cxsweep-aggregate"):
			a.Digest = "" // an older server
		}
	}
	f, err := s.fetch(run.ID, t.TempDir())
	require.NoError(t, err)
	want := allOf(fleet.StateFetched)
	want["local-host-bf16-n1"] = fleet.StateExpired
	delete(want, "local-host-collective-n1")
	require.Equal(t, want, states(f))
	require.Equal(t, []string{"local-host-collective-n1"}, f.Missing)
	require.True(t, f.Artifacts[0].Verified)
	require.False(t, f.Artifacts[len(f.Artifacts)-1].Verified)
	require.ErrorContains(t, f.Err(), "local-host-collective-n1")

	run.Artifacts = nil
	f, err = s.fetch(run.ID, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, []string{"matrix", "aggregate"}, f.Missing)
	text, err := json.Marshal(f)
	require.NoError(t, err)
	require.Contains(t, string(text), `"artifacts":[]`)
}

// The token reaches the API alone: neither the store of artifacts, to which the API
// redirects, nor another server that a redirect names.
func TestTokenReachesTheAPIAlone(t *testing.T) {
	s, run := finished(t)
	for _, status := range []int{301, 302, 307, 308} {
		for _, route := range []string{"GET /jobs", "GET /zip", fmt.Sprintf("GET /runs/%d", run.ID)} {
			s.Fail(route, githubtest.Status(status, "", "Location", s.BlobURL()+"/1"))
		}
		_, _, err := s.watch(run.ID)
		require.Error(t, err)
		_, _, err = s.watch(run.ID)
		require.Error(t, err)
		_, err = s.fetch(run.ID, t.TempDir())
		require.NoError(t, err)
	}
	require.Empty(t, s.Leaks())

	// The stand-in would have noticed.
	req, err := http.NewRequest(http.MethodGet, s.BlobURL()+"/1", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+githubtest.Token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, []string{"GET /1"}, s.Leaks())
	req.Header.Del("Authorization")
	req.URL.RawQuery = "access_token=" + githubtest.Token
	resp, err = http.DefaultClient.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, []string{"GET /1"}, s.Leaks())
}

// A token is never printed.
func TestTokenIsNotPrinted(t *testing.T) {
	token := fleet.NewToken(" " + githubtest.Token + "\n")
	text, err := json.Marshal(struct{ T fleet.Token }{token})
	require.NoError(t, err)
	for _, shown := range []string{fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s %q", token, token, token, token, token), fmt.Sprintf("%+v", fleet.Options{Token: token}), string(text)} {
		require.NotContains(t, shown, githubtest.Token)
		require.Contains(t, shown, "[token]")
	}
}

// A run of another server is not looked for on this one.
func TestCheckHost(t *testing.T) {
	const own = "https://git.acme.example:8443/api/v3"
	for _, test := range []struct{ api, host, says string }{
		{"", "", ""},
		{"", "github.com", ""},
		{"", "GitHub.com", ""},
		{"https://api.acme.ghe.com", "acme.ghe.com", ""},
		{own, "git.acme.example:8443", ""},
		{own, "", ""},
		{"", "git.acme.example", "https://git.acme.example/api/v3"},
		{own, "github.com", "such as https://api.github.com"},
		{own, "git.acme.example", "git.acme.example:8443"},
		{"nonsense", "github.com", "GITHUB_API_URL: want a URL"},
	} {
		err := fleet.CheckHost(test.api, test.host)
		if test.says == "" {
			require.NoError(t, err, test)
		} else {
			require.ErrorContains(t, err, test.says)
		}
	}
}

// A file that is no token is refused before it is sent.
func TestTokenCheck(t *testing.T) {
	require.NoError(t, fleet.NewToken(" "+githubtest.Token+"\n").Check())
	for _, text := range []string{"one\ntwo", "a b", "a\x00", "\xa0\xff"} {
		require.ErrorContains(t, fleet.NewToken(text).Check(), "check --token-file or GH_TOKEN")
	}
}

// gh is a stand-in for the gh program.
type gh struct {
	out  string
	args []string
}

func (g *gh) Start(c command.Command) (command.Process, error) {
	g.args = c.Args
	if g.out == "" {
		return nil, fs.ErrNotExist
	}
	_, _ = c.Stdout.Write([]byte(g.out))
	return done{}, nil
}

type done struct{ command.Process }

func (done) Kill()                {}
func (done) Wait() command.Status { return command.Status{} }

// The token is that of the server: one of github.com does not go to another.
func TestFindToken(t *testing.T) {
	same := func(want, got fleet.Token) {
		t.Helper()
		require.True(t, want == got, "another token") // Equal would print them
	}
	for _, test := range []struct {
		api  string
		env  map[string]string
		want string
		host string // that gh is asked about
	}{
		{"", map[string]string{"GH_TOKEN": "a", "GITHUB_TOKEN": "b"}, "a", ""},
		{"https://api.github.com", map[string]string{"GITHUB_TOKEN": "b", "GH_ENTERPRISE_TOKEN": "c"}, "b", ""},
		{"https://api.acme.ghe.com", map[string]string{"GITHUB_TOKEN": "b"}, "b", ""},
		{"https://git.acme.example/api/v3", map[string]string{"GH_TOKEN": "a", "GITHUB_TOKEN": "b"}, "gh", "git.acme.example"},
		{"https://git.acme.example/api/v3", map[string]string{"GH_TOKEN": "a", "GH_ENTERPRISE_TOKEN": "c"}, "c", ""},
		{"https://git.acme.example/api/v3", map[string]string{"GITHUB_TOKEN": "b", "GITHUB_ACTIONS": "true"}, "b", ""},
		{"", nil, "gh", "github.com"},
		{"https://api.acme.ghe.com", nil, "gh", "acme.ghe.com"},
	} {
		program := &gh{out: "gh\n"}
		got, err := fleet.FindToken(context.Background(), test.api, func(n string) string { return test.env[n] }, program)
		require.NoError(t, err)
		same(fleet.NewToken(test.want), got)
		if test.host != "" {
			require.Equal(t, []string{"gh", "auth", "token", "--hostname", test.host}, program.args)
		}
	}
	_, err := fleet.FindToken(context.Background(), "", func(string) string { return "" }, &gh{})
	require.ErrorContains(t, err, "set GH_TOKEN")
	for _, api := range []string{"http://api.github.com", "ftp://x", "https://user@host", "nonsense"} {
		_, err := fleet.FindToken(context.Background(), api, func(string) string { return "" }, &gh{})
		require.ErrorContains(t, err, "GITHUB_API_URL")
	}
}

func TestParseRun(t *testing.T) {
	for text, want := range map[string]fleet.RunRef{
		"1001": {ID: 1001}, "1001\n": {ID: 1001},
		"https://github.com/acme/fleet/actions/runs/1001":                    {1001, "github.com", "acme/fleet"},
		"https://github.com/acme/fleet/actions/runs/1001/job/7?pr=1":         {1001, "github.com", "acme/fleet"},
		"https://git.acme.example/acme/fleet.x/actions/runs/1001/attempts/2": {1001, "git.acme.example", "acme/fleet.x"},
	} {
		got, err := fleet.ParseRun(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "0", "-1", "x", "https://github.com/acme/fleet", "https://github.com/acme/../actions/runs/x"} {
		_, err := fleet.ParseRun(text)
		require.EqualError(t, err, fmt.Sprintf("run %q: want its number or its URL, such as https://github.com/acme/fleet/actions/runs/1001", text))
	}
}

func TestCheckRepoAndHost(t *testing.T) {
	require.NoError(t, fleet.CheckRepo("acme/fleet"))
	require.EqualError(t, fleet.CheckRepo("x"), `repository "x": want OWNER/NAME, such as acme/fleet`)
	require.NoError(t, fleet.CheckHost("https://api.github.com", "github.com"))
	require.EqualError(t, fleet.CheckHost("http://127.0.0.1:8080", "git.acme.example"),
		"the run is on git.acme.example, and GITHUB_API_URL is the API of 127.0.0.1:8080: set it to the API of git.acme.example, such as https://git.acme.example/api/v3")
}

// A dataset that is missing or damaged answers nothing.
func TestUnansweredOfWhatIsNoDataset(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.ndjson")
	_, _, err := fleet.Unanswered(none, nil, 0)
	require.EqualError(t, err, none+": no such file; name the dataset of the run: 'cxgen fetch RUN -o DIR' writes it to DIR/aggregate/*.ndjson")
	torn := filepath.Join(t.TempDir(), "torn.ndjson")
	require.NoError(t, os.WriteFile(torn, []byte("{"), 0o600))
	_, _, err = fleet.Unanswered(torn, nil, 0)
	require.ErrorContains(t, err, torn+":1: ")
	require.ErrorContains(t, err, "; it may have been the success of a case: fetch the dataset again")
}
