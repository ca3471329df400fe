package page_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"guild/verify"
	"guild/verify/page"
)

const (
	good    = "../testdata/vectors/good-in-clear.zip"
	changed = "../testdata/vectors/bad-a-better-score.zip"
)

// TestThePage gives records to the page in a real browser and compares what it shows with package verify.
func TestThePage(t *testing.T) {
	t.Parallel()
	html := made(t)
	b := chromium(t)
	p := b.open(t, html)
	for _, c := range []struct {
		name string
		test func(*testing.T, tab)
	}{
		{"shows a record that holds", showsOneThatHolds},
		{"shows a record that was changed", showsOneThatWasChanged},
		{"shows several records", showsSeveral},
		{"says what is missing", saysWhatIsMissing},
		{"tries its sample", triesItsSample},
		{"saves the second verifier", savesThePython},
		{"says that a file is no record", saysThatAFileIsNone},
		{"shows HTML in a record as text", showsHTMLAsText},
		{"can be used without a mouse", worksWithoutAMouse},
		{"takes what is dropped on it", takesWhatIsDropped},
		{"keeps what was chosen last", keepsTheLast},
		{"can be read on any screen", fitsAnyScreen},
		{"can be heard", canBeHeard},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := tab{p.browser, t, p.session, p.address}
			c.test(t, p)
			if asked := p.requests(); !slices.Equal(asked, []string{p.address}) {
				t.Errorf("the page asked for %.200q, not for itself alone", asked)
			}
			if said := p.complaints(); len(said) > 0 {
				t.Errorf("the page complains: %s", said)
			}
		})
	}
	t.Run("reaches no network", func(t *testing.T) { reachesNoNetwork(t, b, html) })
}

func made(t *testing.T) []byte {
	t.Helper()
	html, err := page.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return html
}

// shown is the content of the page.
type shown struct {
	State   string // "passed" or "failed"
	Verdict string // over all records
	Records []record
}

type record struct {
	State   string
	File    string
	Summary string
	Words   string // last line of the report
	Lines   []check

	Times, Missing []string // when what happened; why it matters that a file is not there
}

// check is one line: its state by style, by mark and for screen readers, and its texts.
type check struct{ State, Mark, Spoken, Name, Detail string }

// give calls do, which gives records to the page, and waits until they are checked.
func (p tab) give(do func()) (s shown) {
	p.t.Helper()
	p.eval("awaitVerdict()", nil)
	do()
	p.eval("checked.then(shown)", &s)
	return s
}

// choose gives files to the page through its button. It first clears an earlier choice.
func (p tab) choose(files ...string) shown {
	p.t.Helper()
	p.eval(`document.getElementById("file").value = ""`, nil)
	return p.give(func() { p.fill(absolute(p.t, files)) })
}

// fill answers the browser's file dialog. The page is notified only if the files differ from the earlier ones.
func (p tab) fill(files []string) {
	p.t.Helper()
	var input struct{ Result struct{ ObjectID string } }
	p.do("Runtime.evaluate", object{"expression": `document.getElementById("file")`}, &input)
	p.do("DOM.setFileInputFiles", object{"files": files, "objectId": input.Result.ObjectID}, nil)
}

func absolute(t *testing.T, files []string) (all []string) {
	t.Helper()
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, path)
	}
	return all
}

// said returns what the page should show of a file, according to package verify.
func said(t *testing.T, file string) record {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	report, err := verify.Archive(b)
	if err != nil {
		report = verify.Broken(err)
	}
	r := record{State: "failed", File: filepath.Base(file), Summary: report.Summary}
	count := map[verify.State]int{}
	var absent []string
	for _, c := range report.Checks {
		count[c.State]++
		if c.State == verify.Absent {
			absent = append(absent, c.Name)
		}
		looks := map[verify.State]check{
			verify.Passed: {Mark: "✓", Spoken: "passed: "},
			verify.Failed: {Mark: "✗", Spoken: "failed: "},
			verify.Absent: {Mark: "–", Spoken: "nothing to check: "},
		}[c.State]
		r.Lines = append(r.Lines, check{string(c.State), looks.Mark, looks.Spoken, c.Name, c.Detail})
	}
	what, how := "the receipt", fmt.Sprintf("does not hold: %d failed, ", count[verify.Failed])
	if report.Receipt != "" {
		what = "receipt " + report.Receipt
	}
	if report.OK() {
		r.State, how = "passed", fmt.Sprintf("holds, grade %s: ", report.Grade)
	}
	if report.OK() && report.Grade == verify.Claim {
		how = fmt.Sprintf("is a claim by %s: ", report.Facts.Signer)
	}
	r.Words = fmt.Sprintf("%s %s%d passed", what, how, count[verify.Passed])
	if len(absent) > 0 {
		r.Words += "; nothing to check: " + strings.Join(absent, ", ")
	}
	return r
}

// same compares what the page shows of a record with the expected record.
func same(t *testing.T, got, want record) {
	t.Helper()
	if got.State != want.State || got.File != want.File || got.Words != want.Words || got.Summary != want.Summary || !slices.Equal(got.Lines, want.Lines) {
		t.Errorf("the page shows\n%+v\nthe verifier says\n%+v", got, want)
	}
}

func showsOneThatHolds(t *testing.T, p tab) {
	s := p.choose(good)
	if s.State != "passed" || s.Verdict != "good-in-clear.zip holds." || len(s.Records) != 1 {
		t.Fatalf("%+v", s)
	}
	same(t, s.Records[0], said(t, good))
	want := []string{"customer", "npub14ncmkggkuy494cvkfpl3ant6zq3mxqaeclqa8uqnzrwexyyeq72s93lc3y", "provider", "npub18dt7udzkn8gnpz4szju0khxm3ewd049q2l5srx7anlhlerh2alrqym3hgn",
		"2026-09-21 14:13 UTC", "asked for", "2026-09-21 14:13 UTC", "delivered", "2026-09-21 14:13 UTC", "judged, and the receipt signed", "2026-09-21 14:14 UTC", "sealed in the customer's journal",
		"2026-09-21 14:15 UTC", "countersigned by the provider"}
	if got := s.Records[0]; !slices.Equal(got.Times, want) || len(got.Missing) > 0 {
		t.Errorf("times %q, missing %q", got.Times, got.Missing)
	}
}

func saysWhatIsMissing(t *testing.T, p tab) {
	files := unpacked(t, good)
	delete(files, "request.event.json")
	s := p.choose(file(t, "less.zip", packed(t, files)))
	want := []string{"Without the request, nobody is known to be the customer."}
	if len(s.Records) != 1 || !slices.Equal(s.Records[0].Missing, want) || s.Records[0].State != "passed" {
		t.Errorf("%+v", s)
	}
}

func triesItsSample(t *testing.T, p tab) {
	s := p.give(func() { p.eval(`document.getElementById("try").click()`, nil) })
	want := said(t, "../testdata/vectors/good-with-strengths.zip")
	want.File = "sample.zip"
	if len(s.Records) != 1 {
		t.Fatalf("%+v", s)
	}
	same(t, s.Records[0], want)
}

func savesThePython(t *testing.T, p tab) {
	// The link that the button makes is caught, since a headless browser refuses downloads.
	var saved struct{ Name, Link string }
	p.eval(`(() => {
		const click = HTMLAnchorElement.prototype.click;
		let saved;
		HTMLAnchorElement.prototype.click = function () { saved = { Name: this.download, Link: this.href }; };
		document.getElementById("python").click();
		HTMLAnchorElement.prototype.click = click;
		return saved;
	})()`, &saved)
	text, found := strings.CutPrefix(saved.Link, "data:text/x-python;base64,")
	program, err := base64.StdEncoding.DecodeString(text)
	if saved.Name != "verify.py" || !found || err != nil || !bytes.Equal(program, page.Python()) {
		t.Errorf("%s, %.80s, %v", saved.Name, saved.Link, err)
	}
}

func showsOneThatWasChanged(t *testing.T, p tab) {
	s := p.choose(changed)
	if s.State != "failed" || s.Verdict != "bad-a-better-score.zip does not hold." || len(s.Records) != 1 {
		t.Fatalf("%+v", s)
	}
	same(t, s.Records[0], said(t, changed))
}

func showsSeveral(t *testing.T, p tab) {
	all, err := filepath.Glob("../testdata/vectors/*.zip")
	if err != nil || len(all) < 30 {
		t.Fatalf("%d vectors, %v", len(all), err)
	}
	if testing.Short() { // each takes 100 ms
		all = slices.Concat(all[:5], all[len(all)-5:])
	}
	all = append(all, oldExports(t)...)
	s := p.choose(all...)
	bad := 0
	for i, file := range all {
		want := said(t, file)
		if want.State == "failed" {
			bad++
		}
		if i >= len(s.Records) {
			t.Fatalf("%d records are shown of %d", len(s.Records), len(all))
		}
		same(t, s.Records[i], want)
	}
	if s.State != "failed" || s.Verdict != fmt.Sprintf("%d of %d records did not pass.", bad, len(all)) {
		t.Errorf("%s: %s", s.State, s.Verdict)
	}
	if s := p.choose(good, good); s.State != "passed" || s.Verdict != "All 2 records hold." {
		t.Errorf("%s: %s", s.State, s.Verdict)
	}
}

// oldExports returns exports that earlier versions have written.
func oldExports(t *testing.T) (all []string) {
	t.Helper()
	packed, err := filepath.Glob("../../cmd/guild/testdata/compat/*november-2026.tar.gz")
	if err != nil || len(packed) != 2 {
		t.Fatal(packed, err)
	}
	for _, name := range packed {
		b, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		text, err := gzip.NewReader(b)
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewReader(text)
		for h, err := archive.Next(); err != io.EOF; h, err = archive.Next() {
			if err != nil {
				t.Fatal(err)
			}
			if path.Dir(h.Name) != "exports" {
				continue
			}
			content, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, file(t, path.Base(h.Name), content))
		}
	}
	return all
}

func saysThatAFileIsNone(t *testing.T, p tab) {
	word, empty, large := file(t, "word.zip", []byte("no archive")), file(t, "emp\u202ety.zip", nil), file(t, "large.zip", nil)
	if err := os.Truncate(large, 256<<20+1); err != nil {
		t.Fatal(err)
	}
	s := p.choose(word, empty, large, good)
	if len(s.Records) != 4 || s.Verdict != "3 of 4 records did not pass." {
		t.Fatalf("%+v", s)
	}
	unturned := said(t, empty)
	unturned.File = "emp·ty.zip"
	tooLarge := record{State: "failed", File: "large.zip", Words: "not checked: it is larger than 256 MiB"}
	for i, want := range []record{said(t, word), unturned, tooLarge, said(t, good)} {
		same(t, s.Records[i], want)
	}
	if s := p.choose(large); s.State != "failed" || s.Verdict != "large.zip was not checked." {
		t.Errorf("%s: %s", s.State, s.Verdict)
	}
}

func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// showsHTMLAsText checks that HTML in every text of a record, and in its file name, is shown as text.
func showsHTMLAsText(t *testing.T, p tab) {
	const hostile = `<img src=x onerror=ran=1><b>`
	files := unpacked(t, good)
	files["receipt.json"] = bytes.Replace(files["receipt.json"], []byte("r-3cf8798e95d506f1"), []byte(hostile), 1)
	files[hostile] = []byte(hostile)
	signed := file(t, hostile+".zip", packed(t, files))
	delete(files, hostile)
	delete(files, "receipt.event.json") // then the unsigned receipt is shown as it is
	unsigned := file(t, "unsigned.zip", packed(t, files))
	s := p.choose(signed, unsigned)
	if len(s.Records) != 2 {
		t.Fatalf("%+v", s)
	}
	same(t, s.Records[0], said(t, signed))
	same(t, s.Records[1], said(t, unsigned))
	if shown := fmt.Sprint(s); strings.Count(shown, hostile) < 4 {
		t.Errorf("the record's own words are not shown: %s", shown)
	}
	var made string
	p.eval(`[...document.querySelectorAll("main *")].map((e) => e.localName).filter((name) => /^(img|b)$/.test(name)).join() +
		(typeof ran === "undefined" ? "" : " ran")`, &made)
	if made != "" {
		t.Errorf("HTML of a record became part of the page: %s", made)
	}
}

func unpacked(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	z, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func packed(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, content := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// worksWithoutAMouse checks that the first Tab reaches the button, that Enter opens it, and that a changed file is
// read again.
func worksWithoutAMouse(t *testing.T, p tab) {
	p.do("Page.setInterceptFileChooserDialog", object{"enabled": true}, nil)
	p.press("Tab", 9, "")
	var focus struct {
		ID      string
		Outline float64
	}
	p.eval(`({ id: document.activeElement.id, outline: parseFloat(getComputedStyle(document.activeElement).outlineWidth) })`, &focus)
	if focus.ID != "file" || focus.Outline < 2 {
		t.Fatalf("Tab leads to %+v", focus)
	}
	mine := file(t, "mine.zip", nil)
	for _, from := range []string{good, changed} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(mine, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := p.give(func() {
			p.press("Enter", 13, "\r")
			p.await("Page.fileChooserOpened")
			p.fill([]string{mine})
		})
		if len(s.Records) != 1 {
			t.Fatalf("%+v", s)
		}
		same(t, s.Records[0], said(t, mine))
	}
}

func (p tab) press(key string, code int, text string) {
	p.t.Helper()
	stroke := object{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
	p.do("Input.dispatchKeyEvent", stroke, nil)
	stroke["type"], stroke["text"] = "keyUp", ""
	p.do("Input.dispatchKeyEvent", stroke, nil)
}

func takesWhatIsDropped(t *testing.T, p tab) {
	p.choose(good)
	s := p.give(func() { p.drop(absolute(t, []string{changed, good})) })
	if len(s.Records) != 2 {
		t.Fatalf("%+v", s)
	}
	same(t, s.Records[0], said(t, changed))
	same(t, s.Records[1], said(t, good))
	var stillNamed int
	if p.eval(`document.getElementById("file").files.length`, &stillNamed); stillNamed != 0 {
		t.Error("the button still names what was chosen before")
	}
}

func (p tab) drop(files []string) {
	p.t.Helper()
	for _, kind := range []string{"dragEnter", "dragOver", "drop"} {
		p.do("Input.dispatchDragEvent", object{"type": kind, "x": 30, "y": 10,
			"data": object{"items": []string{}, "files": files, "dragOperationsMask": 1}}, nil)
	}
}

func keepsTheLast(t *testing.T, p tab) {
	s := p.give(func() {
		p.fill(absolute(t, []string{changed, changed, changed}))
		p.drop(absolute(t, []string{good}))
	})
	if len(s.Records) != 1 || s.Verdict != "good-in-clear.zip holds." {
		t.Fatalf("%+v", s)
	}
}

// fitsAnyScreen checks that nothing is cut off or needs horizontal scrolling, and that all text has the contrast that
// WCAG 2.2 requires (4.5 to 1).
func fitsAnyScreen(t *testing.T, p tab) {
	p.choose(good, changed, file(t, strings.Repeat("long", 50)+".zip", nil))
	p.eval(`document.querySelector("details").open = true`, nil)
	for _, scheme := range []string{"light", "dark"} {
		p.do("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		for _, width := range []int{320, 400, 1400} {
			p.do("Emulation.setDeviceMetricsOverride",
				object{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": true}, nil)
			var look struct {
				Paper string
				Wide  []string
				Faint []string
			}
			p.eval("looks()", &look)
			if len(look.Wide) > 0 || len(look.Faint) > 0 {
				t.Errorf("%s, %d pixels wide: too wide: %q; too faint: %q", scheme, width, look.Wide, look.Faint)
			}
			if dark := look.Paper == "rgb(20, 22, 28)"; dark != (scheme == "dark") {
				t.Errorf("the %s page is %s", scheme, look.Paper)
			}
		}
	}
}

// canBeHeard checks the texts for screen readers.
func canBeHeard(t *testing.T, p tab) {
	p.choose(changed)
	p.do("Accessibility.enable", nil, nil)
	type text struct{ Value any }
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name text
			Properties []struct {
				Name  string
				Value text
			}
		}
	}
	p.do("Accessibility.getFullAXTree", nil, &tree)
	var heard []string
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		heard = append(heard, fmt.Sprint(n.Role.Value, ": ", n.Name.Value))
		for _, property := range n.Properties {
			if property.Name == "live" {
				heard = append(heard, fmt.Sprint(n.Role.Value, " is ", property.Value.Value))
			}
		}
	}
	for _, want := range []string{
		"heading: Check a guild record", "status is polite", "StaticText: bad-a-better-score.zip does not hold.",
		"region: bad-a-better-score.zip", "heading: failed: bad-a-better-score.zip",
		"StaticText: passed:", "StaticText: failed:", "StaticText: nothing to check:",
	} {
		if !slices.Contains(heard, want) {
			t.Errorf("nobody hears %q", want)
		}
	}
	if !slices.ContainsFunc(heard, func(s string) bool {
		return strings.HasPrefix(s, "button: Choose one or more records")
	}) {
		t.Error("the button has no name")
	}
	if slices.ContainsFunc(heard, func(s string) bool { return strings.ContainsAny(s, "✓✗") && strings.Count(s, " ") == 1 }) {
		t.Error("a mark is read out")
	}
	if t.Failed() {
		t.Logf("heard: %q", heard)
	}
}

// reachesNoNetwork tries all ways in which a script could reach a server. The same page without its policy shows that
// these ways work.
func reachesNoNetwork(t *testing.T, b *browser, html []byte) {
	arrived := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.URL.Path }))
	defer server.Close()
	ways := []string{"fetch", "img", "script", "iframe", "style", "video", "beacon", "import", "socket"}
	var guarded, free bool
	b.open(t, html).eval(fmt.Sprintf("everyWay(%q)", server.URL+"/guarded/"), &guarded)
	without := bytes.Replace(html, []byte(`http-equiv="Content-Security-Policy"`), nil, 1)
	b.open(t, without).eval(fmt.Sprintf("everyWay(%q)", server.URL+"/free/"), &free)
	if guarded || !free {
		t.Errorf("HTML can be written into the page: %t; without its policy: %t", guarded, free)
	}
	for len(ways) > 0 {
		select {
		case path := <-arrived:
			if strings.HasPrefix(path, "/guarded/") {
				t.Errorf("a request left the page: %s", path)
			}
			ways = slices.DeleteFunc(ways, func(way string) bool { return path == "/free/"+way })
		case <-time.After(patience):
			t.Fatalf("even without a policy these reach nobody: %q", ways)
		}
	}
}
