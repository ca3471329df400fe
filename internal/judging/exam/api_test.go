package exam

import (
	"fmt"
	"strings"
	"testing"

	"guild"
)

// users is a service that stores users, written with the standard library only.
const users = `
import json, os
from http.server import BaseHTTPRequestHandler, HTTPServer
USERS = []
class Handler(BaseHTTPRequestHandler):
    def answer(self, code, what, **headers):
        body = json.dumps(what).encode()
        self.send_response(code)
        for k, v in headers.items(): self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        user = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        USERS.append(user | {"id": len(USERS) + 1})
        self.answer(201, USERS[-1], Location="/users/%d" % len(USERS))
    def do_GET(self):
        if self.path == "/users": self.answer(200, {"users": USERS})
        else: self.answer(429, {"error": "slow down"}, Retry_After="3")
HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`

// asksUsers sends three requests to the service.
const asksUsers = `{"criteria": [{"id": "users", "type": "api_test", "command": ["/usr/bin/python3", "server.py"], "cases": [
	{"id": "create", "endpoint": "POST /users", "body": {"name": "ann"}, "expected": {"status_code": 201, "body_contains": "id", "headers": {"Location": "/users/1"}}},
	{"id": "list", "endpoint": "/users", "expected": {"status_code": 200, "body": {"json": {"users": [{"id": 1, "name": "ann"}]}}}},
	{"id": "limit", "endpoint": "http://127.0.0.1:8080/limit", "expected": {"status_code": 429, "header_contains": "Retry-After"}}]}]}`

func TestService(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": asksUsers})
	r := examined(t, bundle, deliver(t, map[string]string{"server.py": users}))
	r.wants(t, guild.Strong, "users/create passed", "users/list passed", "users/limit passed")

	other := strings.Replace(users, "201", "200", 1)
	r = examined(t, bundle, deliver(t, map[string]string{"server.py": other}))
	r.wants(t, guild.Strong, "users/create failed", "users/list passed", "users/limit passed")
}

func TestFaultyServices(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"time_limit_seconds": 20, "criteria": [
		{"id": "a", "type": "api_test", "command": ["/usr/bin/python3", "server.py"], "endpoint": "/", "expected": {"body_contains": "x"}}]}`})
	listen := "import socket, os\ns = socket.create_server(('127.0.0.1', 8080))\n"
	for name, c := range map[string]struct{ program, message string }{
		"ends at once":       {"print('HTTP/1.1 200 OK')", "nothing listens on port 8080; what starts the service ended with exit code 0"},
		"closes":             {listen + "while True: s.accept()[0].close()", "no answer"},
		"speaks otherwise":   {listen + "while True: s.accept()[0].sendall(b'SSH-2.0\\r\\n\\r\\n')", "no answer"},
		"floods":             {listen + "while True:\n c = s.accept()[0]\n try:\n  c.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n')\n  while True: c.sendall(b'y' * 65536)\n except OSError: pass", "more than"},
		"floods the header":  {listen + "while True:\n c = s.accept()[0]\n try:\n  c.sendall(b'HTTP/1.1 200 OK\\r\\n')\n  while True: c.sendall(b'X-A: ' + b'y' * 1000 + b'\\r\\n')\n except OSError: pass", "no answer"},
		"promises for ever":  {listen + "while True:\n c = s.accept()[0]\n try:\n  while True: c.sendall(b'HTTP/1.1 100 Continue\\r\\n\\r\\n')\n except OSError: pass", "promise"},
		"ends the forwarder": {listen + "import time, signal\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(60)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := examined(t, bundle, deliver(t, map[string]string{"server.py": c.program}))
			got := r.Findings[0].Tests[0]
			if len(r.Findings[0].Tests) != 1 || got.State == guild.TestPassed || !strings.Contains(got.Message, c.message) {
				t.Errorf("%+v", r.Findings[0])
			}
		})
	}
}

func TestSharedService(t *testing.T) {
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"service": {"script": "tests/start.sh", "port": 9000}, "criteria": [
			{"id": "a", "type": "api_test", "endpoint": "POST http://localhost:9000/users", "body": "{}", "expected": {"status_code": 201, "body_contains": ["id", "1"]}},
			{"id": "b", "type": "api_test", "endpoint": "POST /users", "body": {}, "expected": {"status_code": 201, "body": {"json": {"id": 1}}}}]}`,
		"tests/start.sh": "mkfifo ready; python3 server.py & cat ready",
	})
	// It starts listening after its parent process has ended, when nothing else is left running.
	late := strings.Replace(users, "HTTPServer((", `import time
starter = os.getppid()
open("ready", "w").close()
while os.getppid() == starter: time.sleep(0.01)
HTTPServer((`, 1)
	examined(t, bundle, deliver(t, map[string]string{"server.py": late})).wants(t, guild.Strong, "a passed", "b passed")
}

func TestSleepingService(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"time_limit_seconds": 3, "criteria": [
		{"id": "a", "type": "api_test", "command": ["/usr/bin/python3", "server.py"], "endpoint": "/", "expected": {"body_contains": "x"}}]}`})
	sleeper := "import socket, time\ns = socket.create_server(('127.0.0.1', 8080))\ntime.sleep(60)"
	r := examined(t, bundle, deliver(t, map[string]string{"server.py": sleeper}))
	if f := r.Findings[0]; !f.OverLimit || f.Tests[0].State == guild.TestPassed {
		t.Errorf("%+v", f)
	}
}

func TestScriptCallsService(t *testing.T) {
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [
			{"id": "prints the answer", "type": "api_test", "script": "tests/call.sh", "expected": {"status_code": 201, "body_contains": "id"}},
			{"id": "is only a check", "type": "api_test", "script": "tests/ok.sh"},
			{"id": "says nothing of an answer", "type": "api_test", "script": "tests/ok.sh", "expected": {"status_code": 201}}]}`,
		"tests/call.sh": "sh app.sh",
		"tests/ok.sh":   "echo ok",
	})
	r := examined(t, bundle, deliver(t, map[string]string{"app.sh": `printf 'HTTP/1.1 201 Created\r\nContent-Length: 8\r\n\r\n{"id":1}'`}))
	if got := states(r); got != "prints the answer passed\nis only a check passed\nsays nothing of an answer failed" {
		t.Errorf("%s\n%+v", got, r.Findings)
	}
	if r.Findings[0].Strength != guild.Weak || r.Findings[1].Framework != "shell" {
		t.Errorf("%+v", r.Findings)
	}
}

// FuzzConversation has a hostile run at the other end of the channel.
func FuzzConversation(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x04open\x00\x00\x00\x05ready\x00\x00\x00\x13HTTP/1.1 200 OK\r\n\r\n\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x04open\x00\x00\x00\x05ready\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Add([]byte("\x00\x00\x00\x04open\x00\x00\x00\x04gone"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var cases []apiCase
		for id, want := range []answerExpected{{}, {StatusCode: 700}} {
			req, err := requestFields{Endpoint: "/a"}.request(defaultPort)
			if err != nil {
				t.Fatal(err)
			}
			cases = append(cases, apiCase{caseName: caseName{ID: fmt.Sprintf("c/%d", id+1)}, request: req, answerExpected: want})
		}
		talk := converse(struct {
			*strings.Reader
			discard
		}{strings.NewReader(string(b)), discard{}}, cases)
		tests := talk.tests(cases, "")
		if len(tests) != 2 || tests[1].State == guild.TestPassed {
			t.Errorf("%+v", tests)
		}
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
