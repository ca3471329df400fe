package exam

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"

	"guild"
)

func TestIOCases(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"criteria": [
		{"id": "wc", "type": "io", "command": ["/usr/bin/python3", "wc.py"], "files": {"note.txt": "for all"}, "layer": "edge", "cases": [
			{"id": "lines", "args": ["-l"], "stdin": "a\nb\n", "expected": {"stdout": "2\n"}, "layer": "smoke"},
			{"id": "json", "args": ["-j"], "stdin": "a b", "expected": {"stdout": {"json": {"lines": 0, "words": 2}}}},
			{"id": "file", "args": ["-o", "out/n.txt", "in/a.txt"], "files": {"in/a.txt": "x\ny\n"},
			 "expected": {"files": {"out/n.txt": {"numbers": "2.0", "abs": 0.1}}, "stdout": ""}},
			{"id": "refuses", "args": ["-x"], "expected": {"exit_code": 2, "stderr": {"contains": "-x"}}}]}]}`})
	wc := `import json, os, sys
a = sys.argv[1:]
if a[0] == '-l': print(sys.stdin.read().count('\n'))
elif a[0] == '-j': s = sys.stdin.read(); print(json.dumps({'words': len(s.split()), 'lines': s.count('\n')}))
elif a[0] == '-o': os.makedirs('out'); open(a[1], 'w').write(str(open(a[2]).read().count('\n')))
else: print('no', a[0], file=sys.stderr); sys.exit(2)
`
	r := examined(t, bundle, deliver(t, map[string]string{"wc.py": wc}))
	r.wants(t, guild.Strong, "wc/lines passed", "wc/json passed", "wc/file passed", "wc/refuses passed")
	if tests := r.Findings[0].Tests; tests[0].Layer != guild.LayerSmoke || tests[1].Layer != guild.LayerEdge || tests[1].Micros <= 0 {
		t.Errorf("%+v", tests)
	}

	// A program that always prints the answer to one case passes only that case, which shows nothing then.
	r = examined(t, bundle, deliver(t, map[string]string{"wc.py": "print(2)"}))
	r.wants(t, guild.Weak, "wc/lines passed", "wc/json failed", "wc/file failed", "wc/refuses failed")
}

func TestDeliveryInTheWay(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"criteria": [
		{"id": "c", "type": "io", "command": ["cat", "a/b"], "files": {"a/b": "x"}, "expected": {"stdout": "x"}}]}`})
	for _, files := range []map[string]string{{"a/b/c": ""}, {"a": ""}} {
		examined(t, bundle, deliver(t, files)).wants(t, guild.Strong, "c failed")
	}
	examined(t, bundle, deliver(t, map[string]string{"a/b": "y", "z": ""})).wants(t, guild.Weak, "c passed")
}

func TestHostileLeftFiles(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"time_limit_seconds": 30, "criteria": [
		{"id": "c", "type": "io", "command": ["/usr/bin/python3", "p.py"], "expected": {"files": {"out.txt": "right"}}}]}`})
	for name, program := range map[string]string{
		"nothing":     "",
		"a link":      "import os\nos.symlink('/etc/passwd', 'out.txt')",
		"a directory": "import os\nos.mkdir('out.txt')\nopen('out.txt/x', 'w').write('right')",
		"a pipe":      "import os\nos.mkfifo('out.txt')",
		"too much":    "f = open('out.txt', 'wb')\nfor i in range(80): f.write(b'r' * 1000000)",
		"a tar":       "import tarfile, io\nt = tarfile.open('out.txt', 'w')\ni = tarfile.TarInfo('out.txt'); i.size = 5\nt.addfile(i, io.BytesIO(b'right'))\nt.close()",
		"many":        "import os\nfor i in range(15000): open('f%d' % i, 'w')\nos.mkdir('out.txt')",
	} {
		t.Run(name, func(t *testing.T) {
			examined(t, bundle, deliver(t, map[string]string{"p.py": program})).wants(t, guild.Strong, "c failed")
		})
	}
	right := "open('out.txt', 'w').write('right')"
	examined(t, bundle, deliver(t, map[string]string{"p.py": right})).wants(t, guild.Strong, "c passed")
}

// FuzzCollected reads arbitrary archives of a hostile run.
func FuzzCollected(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []*tar.Header{
		{Name: "a", Size: 1, Mode: 0o644}, {Name: "./a", Size: 1}, {Name: "../a", Size: 1},
		{Name: "b", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
	} {
		if err := w.WriteHeader(h); err != nil {
			f.Fatal(err)
		}
		w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
	}
	w.Close()
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, archive []byte) {
		for name, content := range collected(archive, []string{"a", "b"}) {
			if name != "a" && name != "b" || len(content) > maxCollected {
				t.Errorf("%q has %d bytes of an archive of %d", name, len(content), len(archive))
			}
		}
	})
}

func TestTAPReport(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"criteria": [
		{"id": "c", "type": "custom", "command": ["/bin/sh", "run.sh"], "report": "tap", "tests": 3}]}`})
	for name, c := range map[string]struct{ script, want string }{
		"all":          {"echo 1..3; echo ok 1 - a; echo ok 2; echo ok 3", "passed passed passed"},
		"too few":      {"echo 1..1; echo ok 1", "passed missing missing"},
		"one fails":    {"echo ok 1; echo not ok 2 - b; echo ok 3; exit 1", "passed failed passed"},
		"one skipped":  {"echo ok 1; echo 'ok 2 # skip no time'; echo 'not ok 3 # TODO later'", "passed skipped skipped"},
		"one twice":    {"echo not ok 1; echo ok 1; echo ok 2; echo ok 3", "failed passed passed"},
		"other things": {"echo ok; echo ok 0; echo ok 4; echo ok 99999999999999999999; echo okay 1", "missing missing missing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := examined(t, bundle, deliver(t, map[string]string{"run.sh": c.script}))
			var got []string
			for _, test := range r.Findings[0].Tests {
				got = append(got, test.State)
			}
			if strings.Join(got, " ") != c.want || r.Findings[0].Strength != guild.Weak || r.Findings[0].Fault != "" {
				t.Errorf("%q, want %q: %+v", got, c.want, r.Findings[0])
			}
		})
	}
	r := examined(t, bundle, deliver(t, map[string]string{"run.sh": "echo ok 1; echo ok 2; echo ok 3; exit 1"}))
	if r.Findings[0].Fault == "" {
		t.Errorf("%+v", r.Findings[0])
	}
}
