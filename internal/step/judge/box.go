package judge

import (
	"cmp"
	"maps"
	"slices"

	"guild"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
)

// box describes the sandboxes of a report's runs, with the largest value of each limit. It returns nil if nothing ran.
func (j *Judge) box(list []exam.Finding) *guild.Box {
	var widest sandbox.Limits
	runs := 0
	for _, f := range list {
		for _, run := range f.Runs {
			widest = wider(widest, run.Limits)
			runs++
		}
	}
	if runs == 0 {
		return nil
	}
	return &guild.Box{
		MAC: j.Caps.MAC, Rootfs: cmp.Or(j.Caps.Rootfs, "host"), Profile: j.profile(sandbox.Standard), Gaps: j.Caps.Gaps,
		CPUs: widest.CPUs, Memory: widest.Memory, Disk: widest.Disk, Pids: widest.Pids,
		CPUMs: widest.CPU.Milliseconds(), WallMs: widest.Wall.Milliseconds(),
	}
}

// profile returns the name of a system call profile, with the hash of its rules if that is known.
func (j *Judge) profile(p sandbox.Profile) string {
	if j.ProfileHash == nil {
		return string(p)
	}
	return string(p) + " " + j.ProfileHash(p)
}

func wider(a, b sandbox.Limits) sandbox.Limits {
	return sandbox.Limits{
		Wall: max(a.Wall, b.Wall), CPU: max(a.CPU, b.CPU), Memory: max(a.Memory, b.Memory), Disk: max(a.Disk, b.Disk),
		Pids: max(a.Pids, b.Pids), CPUs: max(a.CPUs, b.CPUs),
	}
}

// tools lists the tools that took part, by name.
func tools(examined map[string]string, analysed []guild.Tool) []guild.Tool {
	var list []guild.Tool
	for _, name := range slices.Sorted(maps.Keys(examined)) {
		list = append(list, guild.Tool{Name: name, Version: examined[name]})
	}
	for _, t := range analysed {
		if _, known := examined[t.Name]; !known {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b guild.Tool) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
