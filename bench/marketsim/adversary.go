package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Characters of the providers that a market has beside its cast.
const (
	gaming       character = "gaming"       // declines to 30 % within the market's days, but is good at benchmarks
	whitewashing character = "whitewashing" // 50 %, good at benchmarks, and takes a new key when it gets no work
	sybil        character = "sybil"        // never answers; all come on one day
)

// extras lists these characters.
var extras = []character{gaming, whitewashing, sybil}

// characters lists all characters.
func characters() (all []character) {
	for _, c := range cast {
		all = append(all, c.character)
	}
	return append(all, extras...)
}

// adversity has the numbers of providers that a market has beside its cast, and the number of its tasks.
type adversity struct {
	gaming, whitewashing, sybils, tasks int
}

// taskNames are the tasks of a market, of which the first are used.
var taskNames = []string{task, "shell", "benchmark-task"}

const (
	identities = 12 // keys of a whitewashing provider
	decline    = 10 // days until a gaming provider begins to decline
	floodDay   = 5  // on which the sybils come
)

// worsenBy adds adversaries to a market. The cast is the same with and without.
func (m *market) worsenBy(a adversity) {
	m.tasks = a.tasks
	random := rand.New(rand.NewPCG(m.seed, 0x616476657273))
	add := func(kind character) *provider {
		p := newProvider(m, random, len(m.providers), kind)
		p.n = len(m.providers)
		m.providers = append(m.providers, p)
		return p
	}
	for range a.gaming {
		add(gaming).declines(m)
	}
	for range a.whitewashing {
		var before *provider
		for range identities {
			p := add(whitewashing)
			p.benchmark, p.earlier = p.conditions[0], before
			p.conditions[0].accept = 0.5
			p.bad = []spell{{0, time.Duration(m.days) * day}}
			before = p
		}
	}
	for range a.sybils {
		p := add(sybil)
		p.from = floodDay * day
		p.conditions[0].silent = 1
		p.bad = []spell{{0, time.Duration(m.days) * day}}
	}
}

// declines lets a provider accept a little less each day, except in benchmarks. It is bad from the day on which it
// delivers less than 70 %.
func (p *provider) declines(m *market) {
	fine := p.conditions[0]
	p.benchmark = fine
	end := time.Duration(m.days) * day
	step := (fine.accept - 0.3) / float64(max(m.days-decline, 1))
	for at := decline * day; at < end; at += day {
		now := fine
		now.from = at
		now.accept -= step * float64(at/day-decline+1)
		if now.accept < 0.7 && p.bad == nil {
			p.bad = []spell{{at, end}}
		}
		p.conditions = append(p.conditions, now)
	}
}

// taskOf returns the task of a job.
func (m *market) taskOf(job uint64) string { return taskNames[job%uint64(max(m.tasks, 1))] }

// tasksOf returns the tasks that a provider does: of several it does two.
func (m *market) tasksOf(p *provider) []string {
	if m.tasks <= 1 {
		return taskNames[:1]
	}
	first, second := p.n%m.tasks, (p.n+1)%m.tasks
	return []string{taskNames[first], taskNames[second]}
}

// listed reports whether a provider is announced at time t.
func (w *world) listed(p *provider, t time.Duration) bool {
	return t >= p.from && (p.earlier == nil || w.left(p.earlier, t))
}

// left reports whether a provider has given up its key, which it does after two days without work if it had any. The
// key stays announced and is silent from then on.
func (w *world) left(p *provider, t time.Duration) bool {
	if p.character != whitewashing || w.last[p.n] == 0 {
		return false
	}
	w.gone[p.n] = w.gone[p.n] || t-w.last[p.n] >= alone
	return w.gone[p.n]
}

// utility returns the expected value of asking a provider, which is silent if it has given up its key.
func (w *world) utility(p *provider, t time.Duration) float64 {
	if w.left(p, t) {
		return -cost(patience) - float64(p.price)
	}
	return p.utility(t)
}

// doing lists the providers that are announced for the task of a job.
func (w *world) doing(job uint64, t time.Duration) []*provider {
	all, task := make([]*provider, 0, len(w.providers)), w.taskOf(job)
	for _, p := range w.providers {
		tasks := w.tasksOf(p)
		if w.listed(p, t) && (tasks[0] == task || tasks[len(tasks)-1] == task) {
			all = append(all, p)
		}
	}
	return all
}

func (a adversity) check() error {
	if a.gaming < 0 || a.whitewashing < 0 || a.sybils < 0 || a.tasks < 1 || a.tasks > len(taskNames) {
		return fmt.Errorf("want numbers of adversaries from 0 on, and 1 to %d tasks", len(taskNames))
	}
	return nil
}
