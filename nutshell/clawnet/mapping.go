package clawnet

import "guild/nutshell"

// Task is the part of a bundle that a task server stores with the task (the table of section 10.1).
type Task struct {
	Tags     []string // tags.skills_required
	Reward   Reward   // extensions.clawnet.reward; an amount of 0 if not stated: help is wanted
	AuthorID string   // extensions.clawnet.peer_id
}

// AgentResume is the part of a bundle that tells a task server who fits the task (the table of section 10.1).
type AgentResume struct {
	Skills      []string // tags.domains
	DataSources []string // tags.data_sources
}

// Map returns the two by the table of section 10.1. They share no memory with the arguments.
func Map(tags nutshell.Tags, e Extension) (Task, AgentResume) {
	task := Task{Tags: copied(tags.SkillsRequired), AuthorID: e.PeerID}
	if e.Reward != nil {
		task.Reward = *e.Reward
	}
	return task, AgentResume{Skills: copied(tags.Domains), DataSources: copied(tags.DataSources)}
}

// copied returns a copy that is never nil, because a nil list would become null in JSON.
func copied(list []string) []string { return append([]string{}, list...) }
