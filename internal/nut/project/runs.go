package project

import (
	"path"
	"strings"

	"guild/internal/hand/workdir"
)

// Kinds of files that programs obey without being asked to.
const (
	byCI       = "CI runs it"
	byGit      = "git obeys it"
	byShell    = "the shell runs it on entering the directory"
	byTests    = "it runs with the tests"
	byPackages = "it runs when the project is installed, built or tested"
	byEditor   = "editors or agents obey it"
)

// folders are the kinds of everything in folders of a name.
var folders = map[string]string{
	".github": byCI, ".gitlab": byCI, ".circleci": byCI, ".buildkite": byCI, ".forgejo": byCI, ".gitea": byCI, ".woodpecker": byCI, ".ci": byCI,
	".githooks": byGit, ".git-hooks": byGit, ".husky": byGit, "hooks": byGit,
	".devcontainer": byEditor, ".zed": byEditor, ".cargo": byPackages, ".bundle": byPackages, ".mvn": byPackages,
}

// files are the kinds of files of a name, in lower case.
var files = map[string]string{
	".gitlab-ci.yml": byCI, ".travis.yml": byCI, "azure-pipelines.yml": byCI, "jenkinsfile": byCI, ".drone.yml": byCI, ".woodpecker.yml": byCI,
	"bitbucket-pipelines.yml": byCI, "appveyor.yml": byCI, ".appveyor.yml": byCI, "cloudbuild.yaml": byCI, "buildspec.yml": byCI, ".cirrus.yml": byCI,
	".gitattributes": byGit, ".gitmodules": byGit, ".gitconfig": byGit, ".pre-commit-config.yaml": byGit, "lefthook.yml": byGit, ".lefthook.yml": byGit,
	".envrc": byShell, "mise.toml": byShell, ".mise.toml": byShell, ".autoenv": byShell, ".autoenv.zsh": byShell,
	"conftest.py": byTests, "sitecustomize.py": byTests, "usercustomize.py": byTests, "pytest.ini": byTests, "tox.ini": byTests, "noxfile.py": byTests,
	"package.json": byPackages, ".npmrc": byPackages, ".yarnrc": byPackages, ".yarnrc.yml": byPackages, ".pnpmfile.cjs": byPackages, "binding.gyp": byPackages,
	"setup.py": byPackages, "setup.cfg": byPackages, "pyproject.toml": byPackages, "build.rs": byPackages, "cargo.toml": byPackages,
	"gemfile": byPackages, "rakefile": byPackages, "build.gradle": byPackages, "build.gradle.kts": byPackages, "pom.xml": byPackages,
	"makefile": byPackages, "gnumakefile": byPackages, ".bazelrc": byPackages, "cmakelists.txt": byPackages, "deno.json": byPackages,
	"composer.json": byPackages, "justfile": byPackages, "taskfile.yml": byPackages, "taskfile.yaml": byPackages, "meson.build": byPackages,
	"flake.nix": byPackages, "shell.nix": byPackages, "default.nix": byPackages, "dockerfile": byPackages, "containerfile": byPackages,
	"compose.yml": byPackages, "compose.yaml": byPackages, "docker-compose.yml": byPackages, "vagrantfile": byPackages, "tiltfile": byPackages,
	".vimrc": byEditor, ".exrc": byEditor, ".nvimrc": byEditor, ".nvim.lua": byEditor, ".dir-locals.el": byEditor,
	".gdbinit": byEditor, ".lldbinit": byEditor,
}

// RunsItself returns why a file of a project may run, or change what runs, without anybody starting it. It returns "" for
// other files.
func RunsItself(name string) string {
	parts := strings.Split(strings.ToLower(name), "/")
	base := parts[len(parts)-1]
	for i, dir := range parts[:len(parts)-1] {
		if kind := folders[dir]; kind != "" && (i == 0 || dir[0] == '.') {
			return kind
		}
	}
	switch {
	case files[base] != "":
		return files[base]
	case workdir.IsForeign(name), path.Ext(base) == ".code-workspace", path.Ext(base) == ".sublime-project":
		return byEditor
	case path.Ext(base) == ".pth":
		return byTests
	case strings.Contains(base, ".config."), strings.HasPrefix(base, ".lintstagedrc"), strings.HasPrefix(base, ".babelrc"),
		strings.HasPrefix(base, ".eslintrc"), strings.HasPrefix(base, ".prettierrc"), strings.HasPrefix(base, ".mocharc"):
		return byPackages // jest.config.js and the like
	}
	return ""
}
