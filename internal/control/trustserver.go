package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/partner"
	"guild/internal/step/trust"
	"guild/internal/step/trust/exchange"
	"guild/nip89"
)

func (s *Server) getMatrix(r *http.Request) (Matrix, error) {
	task := r.URL.Query().Get("task")
	hash, err := s.c.Matrix()
	if err != nil {
		return Matrix{}, err
	}
	m := Matrix{Hash: hash.String(), Policy: s.c.Policy.Name, Bundle: s.c.Trust.Policy().String(),
		Entries: []TrustEntry{}, Alerts: []Alert{}, Variables: []Variable{}}
	for _, e := range s.c.Trust.All() {
		if task == "" || e.Task == task {
			m.Entries = append(m.Entries, s.trusted(e))
		}
	}
	for _, a := range s.c.Trust.Alerts(s.c.Now()) {
		m.Alerts = append(m.Alerts, Alert{Rule: a.Rule, Task: a.Task, Text: a.Text + ": " + a.Means, Hint: a.Advice})
	}
	names := map[nostr.PubKey]string{}
	for _, service := range s.decided() {
		names[service.PubKey] = cmp.Or(names[service.PubKey], s.c.Registry.Name(service))
	}
	for _, a := range s.c.Variables.Alerts() {
		about := a.Key
		if key, ok := keyOf(a.Name, a.Key); ok {
			about = strings.TrimSpace(names[key] + " " + shortNpub(key))
		}
		m.Alerts = append(m.Alerts, Alert{Rule: a.Rule, Task: a.Key, Text: fmt.Sprintf("%s %s: %s", a.Name, about, a.Rationale)})
	}
	for _, v := range s.c.Variables.All() {
		view := Variable{Name: v.Name, Key: v.Key, Value: v.Value, Why: v.Rationale}
		if key, ok := keyOf(v.Name, v.Key); ok {
			view.Npub, view.Provider = nip19.EncodeNpub(key), names[key]
		}
		m.Variables = append(m.Variables, view)
	}
	return m, nil
}

// keyOf returns the key of a provider that a variable is kept by, if it is kept by one.
func keyOf(name, key string) (nostr.PubKey, bool) {
	p, err := nostr.PubKeyFromHexCheap(key)
	return p, err == nil && name == fact.Parallelism
}

func (s *Server) trusted(e trust.Entry) TrustEntry {
	p := s.c.Providers.Provider(e.Service)
	return TrustEntry{
		Task: e.Task, PubKey: e.Service.PubKey.Hex(), Npub: nip19.EncodeNpub(e.Service.PubKey), D: e.Service.D,
		Name: s.c.Registry.Name(e.Service), State: string(p.State), Until: p.Until,
		Provisional: p.Provisional, Trust: e.Trust.Float(), Micro: e.Trust, Runs: e.Runs, Changed: e.Changed,
	}
}

// getStandings returns the state here of each service of a provider.
func (s *Server) getStandings(r *http.Request) ([]Standing, error) {
	key, err := s.keyStarting(r.PathValue("key"))
	if err != nil {
		return nil, err
	}
	var d *string
	if text := r.URL.Query().Get("d"); text != "" {
		d = &text
	}
	return s.standings(key, d)
}

func (s *Server) standings(key nostr.PubKey, d *string) ([]Standing, error) {
	services, err := s.servicesNamed(key, d)
	if err != nil {
		return nil, err
	}
	entries := slices.DeleteFunc(s.c.Trust.All(), func(e trust.Entry) bool { return e.Service.PubKey != key })
	all := []Standing{}
	for _, service := range services {
		all = append(all, s.standing(service, entries))
	}
	return all, nil
}

// servicesNamed lists the services of a key that are known: the one named d, or all if d is nil. There is one at least.
func (s *Server) servicesNamed(key nostr.PubKey, d *string) ([]guild.Service, error) {
	all := s.servicesOf(key)
	what := fmt.Sprintf("no service of %s is known", shortNpub(key))
	if d != nil {
		all = slices.DeleteFunc(all, func(one guild.Service) bool { return one.D != nip89.CanonicalD(*d) })
		what = fmt.Sprintf("no service %.80q of %s is known", *d, shortNpub(key))
	}
	if len(all) == 0 {
		return nil, missing("guild market ls lists the providers", errors.New(what))
	}
	return all, nil
}

// serviceNamed returns the service of a key that a request names: the one named d, the only one, or the only one that does a task
// or is trusted with it. The task may be "".
func (s *Server) serviceNamed(key nostr.PubKey, d *string, task string) (guild.Service, error) {
	all, err := s.servicesNamed(key, d)
	if err != nil {
		return guild.Service{}, err
	}
	what := fmt.Sprintf("%s has %d services", shortNpub(key), len(all))
	if able := slices.DeleteFunc(slices.Clone(all), func(one guild.Service) bool { return !s.does(one, task) }); len(all) > 1 && len(able) > 0 {
		all, what = able, fmt.Sprintf("%s has %d services for %.80q", shortNpub(key), len(able), task)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	const most = 16
	var names []string
	for _, one := range all[:min(len(all), most)] {
		names = append(names, strconv.Quote(guild.Cut(one.D, 80)))
	}
	if len(all) > most {
		names = append(names, "…")
	}
	return guild.Service{}, ambiguous("name one with --d: "+strings.Join(names, ", "), errors.New(what))
}

// does reports whether a service announces a task, or is trusted with it.
func (s *Server) does(service guild.Service, task string) bool {
	if o, ok := s.c.Registry.Offer(service); ok && slices.Contains(o.Tasks, task) {
		return true
	}
	_, trusted := s.c.Trust.Trust(task, service)
	return trusted
}

// servicesOf lists the services of a key that were announced, or that facts are about.
func (s *Server) servicesOf(key nostr.PubKey) []guild.Service {
	var all []guild.Service
	for _, o := range s.c.Registry.OffersOf(key, "", 0) {
		all = append(all, o.Service)
	}
	for _, service := range s.decided() {
		if service.PubKey == key {
			all = append(all, service)
		}
	}
	slices.SortFunc(all, func(a, b guild.Service) int { return cmp.Compare(a.D, b.D) })
	return slices.Compact(all)
}

// standing returns the state of a service; the entries are those of its provider.
func (s *Server) standing(service guild.Service, entries []trust.Entry) Standing {
	p := s.c.Providers.Provider(service)
	view := Standing{PubKey: service.PubKey.Hex(), Npub: nip19.EncodeNpub(service.PubKey), D: service.D, Name: s.c.Registry.Name(service),
		State: string(p.State), Until: p.Until, Provisional: p.Provisional, Trust: []TrustEntry{}, Reviews: []Aggregate{}}
	if s.c.Agents != nil {
		view.Owners = s.c.Agents.Ownership(service.PubKey)
	}
	if turns := s.c.Providers.Story(service); len(turns) > 0 {
		view.Cause = turns[len(turns)-1].Cause
	}
	if coming := s.c.Partners.Next(service); len(coming) > 0 {
		view.Next = coming[0].What
		if at := coming[0].At; !at.IsZero() {
			view.Next += ", " + at.UTC().Format(time.RFC3339)
		}
	}
	if limit, ok := s.c.Variables.Parallelism(service.PubKey); ok {
		view.Limit = limit
	}
	for _, e := range entries {
		if e.Service == service {
			view.Trust = append(view.Trust, s.trusted(e))
			if s.c.Review != nil {
				view.Reviews = append(view.Reviews, s.about(service.PubKey, e.Task))
			}
		}
	}
	return view
}

// orders are the states that a person may set.
var orders = map[string]partner.Order{
	"suspended": partner.Suspend, "reinstated": partner.Reinstate, "removed": partner.Remove, "allowed": partner.Allow,
}

// postTrust sets trust, or a state, by the owner's word.
func (s *Server) postTrust(r *http.Request, set SetTrust) ([]Standing, error) {
	key, err := s.keyNamed(r.PathValue("key"))
	if err != nil {
		return nil, err
	}
	switch {
	case set.Reason == "":
		err = wrongUsage("the reason is kept in the history", errors.New("no reason is given"))
	case set.Trust != nil && set.State != "":
		err = wrongUsage("set one after the other", errors.New("trust and a state are set together"))
	case set.Trust != nil:
		set.D, err = s.setTrust(r.Context(), key, set)
	default:
		err = s.setState(r.Context(), key, set)
	}
	if err != nil {
		return nil, err
	}
	return s.standings(key, set.D)
}

// setTrust also returns the service.
func (s *Server) setTrust(ctx context.Context, key nostr.PubKey, set SetTrust) (d *string, err error) {
	if set.Task == "" || !(*set.Trust >= 0 && *set.Trust <= 1) {
		return nil, wrongUsage("guild trust set npub1… 0.7 --task python", errors.New("trust is set for a task, from 0.1 to 0.9"))
	}
	service, err := s.serviceNamed(key, set.D, set.Task)
	if err != nil {
		return nil, err
	}
	return &service.D, usage(s.c.Learn.Set(ctx, set.Task, service, guild.Trust(*set.Trust*guild.Micro+0.5), set.Reason))
}

// usage makes an error of trust about the request itself wrong usage.
func usage(err error) error {
	if wrong, ok := errors.AsType[*trust.UsageError](err); ok {
		return wrongUsage("", wrong)
	}
	return err
}

func (s *Server) setState(ctx context.Context, key nostr.PubKey, set SetTrust) error {
	order, ok := orders[set.State]
	if !ok {
		return wrongUsage("there are suspended, reinstated, removed and allowed", fmt.Errorf("no state %.40q can be set", set.State))
	}
	if set.Force {
		if order != partner.Reinstate {
			return wrongUsage("", errors.New("only reinstated can be forced"))
		}
		order = partner.Force
	}
	d := set.D
	if d != nil {
		canonical := nip89.CanonicalD(*d)
		d = &canonical
	}
	_, err := s.c.Partners.Set(ctx, key, d, order, set.Reason)
	if errors.Is(err, partner.ErrNobody) {
		return missing("guild market ls lists the providers", err)
	}
	if errors.Is(err, partner.ErrRemoved) || errors.Is(err, partner.ErrArchived) {
		return refused("guild trust show tells how you stand with it", err)
	}
	return err
}

func (s *Server) postRollback(r *http.Request, to Rollback) (MatrixChange, error) {
	n, err := s.c.Learn.Rollback(r.Context(), time.UnixMilli(to.To), to.Task)
	if err != nil {
		return MatrixChange{}, usage(err)
	}
	hash, err := s.c.Matrix()
	return MatrixChange{Entries: n, Hash: hash.String()}, err
}

func (s *Server) getExport(r *http.Request) ([]byte, error) { return s.c.Exchange.Export(r.Context()) }

func (s *Server) postImport(r *http.Request) (MatrixChange, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return MatrixChange{}, wrongUsage("", fmt.Errorf("read the document: %w", err))
	}
	query := r.URL.Query()
	terms := exchange.Terms{Unsigned: query.Get("unsigned") == "true"}
	if from := query.Get("from"); from != "" {
		if terms.From, err = parsePubKey(from); err != nil {
			return MatrixChange{}, wrongUsage("", fmt.Errorf("from: %w", err))
		}
	}
	d, err := exchange.Decode(raw)
	if err != nil && !errors.Is(err, exchange.ErrSignature) {
		err = wrongUsage("guild trust export writes such a document", err)
	}
	if err != nil {
		return MatrixChange{}, notImported(err)
	}
	sum, err := s.c.Exchange.Import(r.Context(), d, terms)
	if err != nil {
		return MatrixChange{}, notImported(err)
	}
	hash, err := s.c.Matrix()
	change := MatrixChange{Entries: sum.Changed, Skipped: sum.Skipped, Hash: hash.String()}
	if d.By != nostr.ZeroPK {
		change.Guild, change.Signed = nip19.EncodeNpub(d.By), d.At*1000
	}
	return change, err
}

// notImported says what to do about a trust document that is refused. Other errors stay as they are.
func notImported(err error) error {
	const again = "ask that guild for a new export: guild trust export"
	switch {
	case errors.Is(err, exchange.ErrSignature):
		return refused("somebody changed or forged it; "+again, err)
	case errors.Is(err, exchange.ErrUnsigned):
		return refused("earlier versions did not sign: --unsigned imports it if you know where it comes from", err)
	case errors.Is(err, exchange.ErrSigner):
		return refused("import it with --from that key if you trust that guild", err)
	case errors.Is(err, exchange.ErrDate):
		return refused("compare the clocks of both machines", err)
	case errors.Is(err, exchange.ErrKnown), errors.Is(err, exchange.ErrOlder):
		return refused(again, err)
	}
	return err
}

func (s *Server) getPolicy(*http.Request) ([]byte, error) { return s.c.Policy.Encode() }
