package dl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// build compiles a C file of testdata into dir/name with the compiler cgo uses.
func build(t *testing.T, source, dir, name string, args ...string) string {
	t.Helper()
	cc, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err)
	out := filepath.Join(dir, name)
	args = append([]string{"-shared", "-fPIC", "-o", out, filepath.Join("testdata", source)}, args...)
	output, err := exec.Command(strings.TrimSpace(string(cc)), args...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return out
}

func TestOpenSaysWhatWasLoaded(t *testing.T) {
	dir := t.TempDir()
	real := build(t, "answer.c", dir, "libanswer.so.7.2.1", "-DANSWER=7", "-Wl,-soname,libanswer.so.7",
		"-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233")
	link := filepath.Join(dir, "libanswer.so.7")
	require.NoError(t, os.Symlink(real, link))

	l, err := Open(link)
	require.NoError(t, err)
	require.Equal(t, "libanswer.so.7", l.SOName())
	require.Equal(t, "00112233445566778899aabbccddeeff00112233", l.BuildID())
	resolved, err := filepath.EvalSymlinks(real)
	require.NoError(t, err)
	require.Equal(t, resolved, l.Path())

	p, err := l.Symbol("cx_test_answer")
	require.NoError(t, err)
	require.NotNil(t, p)
	_, err = l.Symbol("cx_test_question")
	require.ErrorIs(t, err, ErrNoSymbol)
	require.EqualError(t, err, "no such symbol: cx_test_question in libanswer.so.7")
	require.NoError(t, l.Close())
}

// What a library finds beside itself is not among its imports.
func TestImports(t *testing.T) {
	dir := t.TempDir()
	beside := build(t, "answer.c", dir, "libbeside.so.1", "-DANSWER=1", "-Wl,-soname,libbeside.so.1")
	path := build(t, "answer.c", dir, "libneeds.so", "-DANSWER=2", "-Wl,--no-as-needed", beside, "-Wl,-rpath,/nowhere:$ORIGIN")
	names, err := Imports(path)
	require.NoError(t, err)
	require.NotContains(t, names, "libbeside.so.1")
	require.Contains(t, names, "libc.so.6")
	require.NoError(t, os.Remove(beside))
	names, err = Imports(path)
	require.NoError(t, err)
	require.Contains(t, names, "libbeside.so.1")
}

func TestOpenWithoutNames(t *testing.T) {
	path := build(t, "answer.c", t.TempDir(), "plain.so", "-DANSWER=1", "-Wl,--build-id=none")
	l, err := Open(path)
	require.NoError(t, err)
	defer l.Close()
	require.Empty(t, l.SOName())
	require.Empty(t, l.BuildID())
	_, err = l.Symbol("cx_test_question")
	require.EqualError(t, err, "no such symbol: cx_test_question in plain.so")
}

func TestOpenErrorsAreOneLine(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "libtext.so")
	require.NoError(t, os.WriteFile(text, []byte("not a library\n"), 0o600))
	needs := build(t, "needs.c", dir, "libneeds.so")
	for _, tc := range []struct{ name, open, want string }{
		{"nowhere", filepath.Join(dir, "libnone.so"), "cannot open shared object file"},
		{"not a library", text, "file too short"},
		{"unresolved symbol is found at once", needs, "undefined symbol: cx_test_nobody_has_this"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Open(tc.open)
			require.ErrorIs(t, err, ErrNoLibrary)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// Two libraries with the same names must each keep their own, also for calls
// inside them: NCCL and RCCL are such a pair.
func TestSameNamesDoNotCrossBind(t *testing.T) {
	dir := t.TempDir()
	one, err := Open(build(t, "answer.c", dir, "libone.so", "-DANSWER=1"))
	require.NoError(t, err)
	defer one.Close()
	two, err := Open(build(t, "answer.c", dir, "libtwo.so", "-DANSWER=2"))
	require.NoError(t, err)
	defer two.Close()
	for _, tc := range []struct {
		lib  *Library
		want int32
	}{{one, 1}, {two, 2}} {
		p, err := tc.lib.Symbol("cx_test_heard")
		require.NoError(t, err)
		require.Equal(t, tc.want, *(*int32)(p))
	}
}

func TestConcurrentErrorsStayApart(t *testing.T) {
	l, err := Open(build(t, "answer.c", t.TempDir(), "libanswer.so", "-DANSWER=1", "-Wl,-soname,libanswer.so"))
	require.NoError(t, err)
	defer l.Close()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				_, err := l.Symbol("cx_test_question")
				if err == nil || err.Error() != "no such symbol: cx_test_question in libanswer.so" {
					t.Errorf("lookup of a missing symbol: %v", err)
				}
				_, err = Open("/nowhere/libnone.so")
				if err == nil || !strings.Contains(err.Error(), "/nowhere/libnone.so") {
					t.Errorf("open of a missing library: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"1", "2"} {
		build(t, "answer.c", dir, "libanswer.so."+v, "-DANSWER="+v, "-Wl,-soname,libanswer.so."+v)
	}
	text := filepath.Join(dir, "libtext.so")
	require.NoError(t, os.WriteFile(text, []byte("not a library\n"), 0o600))
	const env = "CX_TEST_LIB"
	for _, tc := range []struct {
		name    string
		env     string
		names   []string
		soname  string
		wantErr string
	}{
		{"first name that loads", "", []string{"libcx-nowhere.so", filepath.Join(dir, "libanswer.so.1")}, "libanswer.so.1", ""},
		{"pattern takes the newest", "", []string{filepath.Join(dir, "libanswer.so.*")}, "libanswer.so.2", ""},
		{"variable wins", filepath.Join(dir, "libanswer.so.1"), []string{filepath.Join(dir, "libanswer.so.2")}, "libanswer.so.1", ""},
		{
			"variable is the only place", "/nowhere/lib.so",
			[]string{filepath.Join(dir, "libanswer.so.2")},
			"",
			"answers from CX_TEST_LIB=/nowhere/lib.so: no such library: /nowhere/lib.so: cannot open shared object file: No such file or directory; set CX_TEST_LIB to the right library, or unset it",
		},
		{
			"variable names another file", text,
			[]string{filepath.Join(dir, "libanswer.so.2")},
			"",
			"answers from CX_TEST_LIB=" + text + ": it is not the answers library: " + text + ": file too short; set CX_TEST_LIB to the right library, or unset it",
		},
		{
			"nowhere", "",
			[]string{"libcx-nowhere.so", "/nowhere/libcx.so.*"},
			"",
			"answers: no such library: looked for libcx-nowhere.so, /nowhere/libcx.so.*; install it or set CX_TEST_LIB to its path",
		},
		{
			"there but broken", "",
			[]string{"libcx-nowhere.so", text},
			"",
			"answers: no such library that loads: " + text + ": file too short; set CX_TEST_LIB to its path",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(env, tc.env)
			l, err := Search{What: "answers", Env: env, Names: tc.names}.Open()
			if tc.wantErr != "" {
				require.ErrorIs(t, err, ErrNoLibrary)
				require.EqualError(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.soname, l.SOName())
			require.NoError(t, l.Close())
		})
	}
}

func TestFindNoteSurvivesGarbage(t *testing.T) {
	path := build(t, "answer.c", t.TempDir(), "libanswer.so", "-DANSWER=1", "-Wl,--build-id=sha1")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	for cut := len(raw) - 1; cut > 64; cut -= 97 {
		short := filepath.Join(t.TempDir(), "cut.so")
		require.NoError(t, os.WriteFile(short, raw[:cut], 0o600))
		_, _ = readIdentity(short) // must not panic
	}
}

// A library that does not say where its neighbour lies loads when it is named by
// path, and only then.
func TestSearchOpensWhatLiesBeside(t *testing.T) {
	dir := t.TempDir()
	build(t, "answer.c", dir, "libcxneighbour.so.1", "-DANSWER=1", "-Wl,-soname,libcxneighbour.so.1")
	needy := build(t, "answer.c", dir, "libcxneedy.so", "-DANSWER=2", "-Wl,--no-as-needed", filepath.Join(dir, "libcxneighbour.so.1"))
	s := Search{What: "test", Env: "CX_TEST_LIB", Names: []string{needy}}
	_, err := s.Open()
	require.ErrorContains(t, err, "libcxneighbour.so.1: cannot open shared object file")
	s.Beside = []string{"libcxneighbour.so.1", "libcxnone.so.1"}
	l, err := s.Open()
	require.NoError(t, err)
	require.NoError(t, l.Close())
}
