package namespaces

import (
	"errors"
	"testing"

	"guild"
	"guild/internal/judging/sandbox"
)

func TestForkMatchesCold(t *testing.T) {
	r := warm(t)
	for name, s := range map[string]sandbox.Spec{
		"streams":           does("print(sys.stdin.read(), end='')\nprint('oops', file=sys.stderr)\nos.write(3, b'result')"),
		"an exit code":      does("sys.exit(7)"),
		"a last word":       does("sys.exit('text')"),
		"an exception":      program(body("def inner(): return 1 / 0\ninner()")),
		"an exit at once":   does("print('lost')\nos._exit(9)"),
		"a signal":          does("os.kill(os.getpid(), 11)"),
		"an interrupt":      does("import signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(5)"),
		"a terminate":       does("os.kill(os.getpid(), 15)"),
		"atexit":            does("import atexit\natexit.register(print, 'bye')\nprint('hello')"),
		"a thread goes on":  does("import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()"),
		"frames":            program(body("f, n = sys._getframe(), 0\nwhile f: print(f.f_code.co_name, f.f_code.co_filename, f.f_lineno); f = f.f_back")),
		"main's names":      program(body("import __main__\nprint(sorted(vars(__main__)), __name__, __main__.__spec__, __main__.__doc__)")),
		"arguments":         program(body("print(sys.argv, getattr(sys, 'orig_argv', None), sys.flags, sys.path, sys.executable)")),
		"modules":           program(body("print(sorted(sys.modules))")),
		"more modules":      program("import json, ctypes, socket\n" + body("print(sorted(sys.modules), ctypes.CDLL(None).getuid())")),
		"modules later":     program(body("import ctypes, fcntl, json, socket, sqlite3, struct, gc\nprint(ctypes.CDLL(None).getuid(), sqlite3.connect(':memory:').execute('select 1').fetchall(), socket.socketpair()[0].family, gc.isenabled())\nclass P(ctypes.Structure): _fields_ = [('x', ctypes.c_int)]\nprint(ctypes.sizeof(P))") + "\n"),
		"environment":       does("import ctypes\nlibc = ctypes.CDLL(None)\nlibc.getenv.restype = ctypes.c_char_p\nprint(dict(os.environ), libc.getenv(b'Z'), libc.getenv(b'HOME'), os.popen('env').read().replace('PWD=/box/work\\n', ''))"),
		"place":             does("print(os.getcwd(), os.listdir('.'), os.getuid(), os.getgid(), os.getgroups())"),
		"session":           does("print(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid())"),
		"signals":           does("import signal\nprint([(s, signal.getsignal(s)) for s in sorted(signal.valid_signals()) if signal.getsignal(s)], signal.pthread_sigmask(0, []))"),
		"warnings":          does("import warnings\nprint(warnings.filters)\nwarnings.warn('careful')"),
		"standard streams":  does("print([(f.name, f.mode, f.encoding, f.errors, f.line_buffering, f.write_through, f.seekable()) for f in (sys.stdin, sys.stdout, sys.stderr)])"),
		"resource limits":   does("import resource\nprint([resource.getrlimit(i) for i in (0, 1, 2, 4, 7)])"),
		"processes":         does("import subprocess\nprint(subprocess.run(['echo', 'child'], capture_output=True).stdout)"),
		"multiprocessing":   does("import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))"),
		"asyncio":           does("import asyncio\nasync def f(): await asyncio.sleep(0); return 5\nprint(asyncio.run(f()))"),
		"loopback":          does("import socket\nl = socket.create_server(('127.0.0.1', 0))\nc = socket.create_connection(l.getsockname())\nl.accept()[0].send(b'hello'); print(c.recv(5))"),
		"too much output":   does("print('x' * 100000)"),
		"capabilities":      does("print([l for l in open('/proc/self/status') if l.startswith(('Cap', 'NoNewPrivs', 'Uid', 'Gid', 'Threads', 'Sig', 'Shd'))])"),
		"nothing inside":    does("print([p for p in ('/root', '/home', '/etc/shadow', '/sys', '/run', '/proc/sys', '/proc/2/x') if os.path.exists(p)])"),
		"a broken setup":    program("import nothing_of_that_name\n" + body("pass")),
		"garbage collector": does("import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.get_debug())"),
		"open descriptors":  does("print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"),
		"the temporary":     does("for d in ('/tmp', '/var/tmp', '/dev/shm', '/box/work', '/box/home'):\n  open(d + '/x', 'w').write('fine')\n  print(open(d + '/x').read(), os.stat(d).st_mode)"),
	} {
		t.Run(name, func(t *testing.T) {
			f, err := run(t, r, s)
			if errors.Is(err, errNotForked) && name == "a broken setup" {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c := cold(t, r, s)
			f.usage, c.usage = guild.Usage{}, guild.Usage{}
			if f.exit != c.exit || f.signal != c.signal || f.stdout != c.stdout || f.stderr != c.stderr || f.results != c.results || f.cut != c.cut {
				t.Errorf("\nforked %+v\ncold   %+v", f, c)
			}
		})
	}
}
