package clawnet

import "guild/nutshell"

// Task is what a task server calls the parts of a bundle that are about the task (the table of section 10.1).
type Task struct {
	Tags     []string // tags.skills_required
	Reward   Reward   // extensions.clawnet.reward; an amount of 0 if not stated: help is wanted
	AuthorID string   // extensions.clawnet.peer_id
}

// AgentResume is what a task server calls the parts of a bundle that say who fits the task (the table of section
// 10.1).
type AgentResume struct {
	Skills      []string // tags.domains
	DataSources []string // tags.data_sources
}

// Map is the table of section 10.1. What is returned shares nothing with its arguments.
func Map(tags nutshell.Tags, e Extension) (Task, AgentResume) {
	task := Task{Tags: copied(tags.SkillsRequired), AuthorID: e.PeerID}
	if e.Reward != nil {
		task.Reward = *e.Reward
	}
	return task, AgentResume{Skills: copied(tags.Domains), DataSources: copied(tags.DataSources)}
}

// copied returns a list of its own that is never nil, because a JSON list is not null.
func copied(list []string) []string { return append([]string{}, list...) }
