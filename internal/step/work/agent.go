package work

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"

	"guild"
	"guild/internal/hand/model"
	"guild/internal/judging/sandbox"
	"guild/nutshell"
	"guild/replay/session"
)

// serveAPI lets the command use its API without the owner's key. It runs a proxy outside of the sandbox, which accepts a token
// of this job instead of the key, and sets the proxy's address and the token in the environment. A command without a network
// reaches nothing else. stop ends the proxy and returns the API with the count of this job; nil without an API.
func (x Exec) serveAPI(spec *sandbox.Spec, streams *sandbox.IO) (stop func() *model.Job, err error) {
	if x.API == nil {
		return func() *model.Job { return nil }, nil
	}
	job, err := x.API.Job()
	if err != nil {
		return nil, err
	}
	token := "guild-" + rand.Text()
	serve := func(l net.Listener) { job.Serve(l, token) }
	origin, closeProxy := fmt.Sprintf("http://127.0.0.1:%d", sandbox.ServePort), func() {} // the runner closes it
	if _, bare := x.Runner.(Bare); bare || spec.Network {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		ended := make(chan struct{})
		go func() { defer close(ended); serve(l) }()
		origin, closeProxy = "http://"+l.Addr().String(), func() { l.Close(); <-ended }
	} else {
		streams.Serve = serve
	}
	spec.Env = append(spec.Env, "GUILD_API_URL="+job.Endpoint(origin), "GUILD_API_TOKEN="+token)
	return func() *model.Job { closeProxy(); return job }, nil
}

// recordUsage records and logs how many tokens a job used, as the proxy counted them. If a limit stopped it, it also says so on
// the standard error of the command, which only the owner sees.
func (x Exec) recordUsage(a Assignment, job *model.Job, stderr io.Writer) {
	if job == nil {
		return
	}
	log, used := cmp.Or(x.Log, slog.Default()), job.Used()
	log.Info("a worker used tokens", "job", a.Job, "requests", used.Requests, "input", used.Input, "output", used.Output, "estimated", used.Estimated)
	if used.Requests > 0 {
		a.RecordModel(x.Model, session.Tokens{Input: used.Input, Output: used.Output})
	}
	if err := job.Limited(); err != nil {
		log.Warn("a worker's request to its model was not sent", "job", a.Job, "err", err)
		fmt.Fprintf(stderr, "\nguild: %v\n", err)
	}
}

// Login is the file with an agent's own login. It is copied into the home directory of each run, so that the run cannot
// change the owner's.
type Login struct {
	Host   string // path of the file, of at most 64 KiB
	Inside string // path below the home directory
}

// copyTo copies the login to dir, from which the sandbox copies it to the home directory. A command without a sandbox does not
// find it, because its home directory is another one.
func (l *Login) copyTo(dir string, spec *sandbox.Spec) error {
	f, err := os.Open(l.Host)
	if err != nil {
		return fmt.Errorf("the agent's login: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err == nil && len(text) > maxSecretFile {
		err = fmt.Errorf("%s has more than %d bytes, and the rest would not be searched for secrets", l.Host, maxSecretFile)
	}
	if err != nil {
		return fmt.Errorf("the agent's login: %w", err)
	}
	file := filepath.Join(dir, filepath.FromSlash(l.Inside))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	spec.Copies = append(spec.Copies, sandbox.Copy{Host: dir, Inside: sandbox.Home})
	return nil
}

// maxPrompt is the longest prompt that is made of a manifest, in bytes. The files have the rest.
const maxPrompt = 16 << 10

// addPrompt sets GUILD_PROMPT and GUILD_MODEL, if they are wanted. The prompt has the task in the customer's words, and says in
// ours where the work is left. The customer's words can give the agent any other order; that is why it has no key, no network
// and no files but the bundle.
func (x Exec) addPrompt(spec *sandbox.Spec, a Assignment) error {
	if !x.Prompt {
		return nil
	}
	tree, err := os.OpenRoot(a.Bundle)
	if err != nil {
		return err
	}
	defer tree.Close()
	m, err := nutshell.ReadManifest(tree.FS())
	if err != nil {
		return fmt.Errorf("the bundle: %w", err)
	}
	bundle, delivery := insideBundle, insideDelivery
	if _, bare := x.Runner.(Bare); bare {
		bundle, delivery = a.Bundle, a.Delivery
	}
	spec.Env = append(spec.Env, "GUILD_PROMPT="+prompt(m, bundle, delivery))
	if x.Model != "" {
		spec.Env = append(spec.Env, "GUILD_MODEL="+x.Model)
	}
	return nil
}

// prompt returns the text for an agent that works on a bundle.
func prompt(m *nutshell.Manifest, bundle, delivery string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	list := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		line("\n%s:", title)
		for _, item := range items {
			line("- %s", strings.Join(strings.Fields(guild.Clean(item)), " "))
		}
	}
	line("Task: %s", strings.Join(strings.Fields(guild.Clean(m.Task().Title)), " "))
	if summary := strings.TrimSpace(guild.Clean(m.Task().Summary)); summary != "" {
		line("\n%s", summary)
	}
	c := m.Context()
	var read []string
	for _, file := range append([]string{c.Requirements, c.Architecture, c.References}, c.Additional...) {
		if file != "" {
			read = append(read, path.Join(bundle, file))
		}
	}
	list("Read first", read)
	list("It must hold that", m.Acceptance().Checklist)
	h := m.Harness()
	list("Constraints", h.Constraints)
	if hintWord.MatchString(h.ExecutionStrategy) {
		line("\nStrategy: %s", h.ExecutionStrategy)
	}
	if h.Checkpoints {
		line("\nLeave what is finished in %s as you go.", delivery)
	}
	text := guild.Cut(b.String(), maxPrompt)
	return text + fmt.Sprintf(`
How to work: the task is in %[1]s: nutshell.json describes it, and files/ has what there is to begin with. Put each file
that you deliver into %[2]s, under the name that it has below files/ or that the task gives it. Only what is in
%[2]s when you end is delivered, and it is tested there. Nobody answers questions: decide by yourself, and end when
the work is done.
`, bundle, delivery)
}
