package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindLooksUpToTheGitRootAndNoFurther(t *testing.T) {
	dir := write(t, map[string]string{
		"lane.yaml":               "",
		"repo/.git/HEAD":          "",
		"repo/a/b/x":              "",
		"named/.git/HEAD":         "",
		"named/lane.yaml":         "",
		"named/a/b/x":             "",
		"worktree/.git":           "gitdir: elsewhere",
		"worktree/lane.yaml":      "",
		"worktree/a/x":            "",
		"plain/a/x":               "",
		"plain/lane.yaml":         "",
		"inner/.git/HEAD":         "",
		"inner/lane.yaml":         "",
		"inner/service/lane.yaml": "",
		"inner/service/src/x":     "",
		"wrong/.git/HEAD":         "",
		"wrong/lane.yml":          "",
		"wrong/src/x":             "",
		"both/.git/HEAD":          "",
		"both/lane.yml":           "",
		"both/lane.yaml":          "",
	})
	for from, want := range map[string]string{
		".":                 "lane.yaml",
		"repo/a/b":          "", // never past the root
		"named/a/b":         "named/lane.yaml",
		"named":             "named/lane.yaml",
		"worktree/a":        "worktree/lane.yaml",
		"plain/a":           "", // no repository: this directory alone
		"plain":             "plain/lane.yaml",
		"inner/service/src": "inner/service/lane.yaml",
		"both":              "both/lane.yaml",
	} {
		got, err := Find(filepath.Join(dir, from))
		if err != nil {
			t.Errorf("%s: %v", from, err)
		}
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got != want {
			t.Errorf("from %s: %q, want %q", from, got, want)
		}
	}
	if _, err := Find(filepath.Join(dir, "wrong/src")); err == nil || !strings.Contains(err.Error(), "rename it to lane.yaml") {
		t.Errorf("lane.yml: %v", err)
	}
}

func TestPathsOfMessagesAreShort(t *testing.T) {
	dir := write(t, map[string]string{".git/HEAD": "", "lane.yaml": "x: 1", "a/x": ""})
	_, err := Load(Options{Dir: filepath.Join(dir, "a")})
	if err == nil || !strings.Contains(err.Error(), filepath.Join("..", "lane.yaml")+":1: x:") {
		t.Errorf("%v", err)
	}
}

func TestAnExplicitFile(t *testing.T) {
	dir := write(t, map[string]string{"other.yaml": "env: other", "lane.yaml": "env: found"})
	s, err := Load(Options{Dir: dir, File: filepath.Join(dir, "other.yaml")})
	if err != nil || s.Env != "other" || s.Source("env") != "other.yaml:1" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Load(Options{Dir: dir, File: filepath.Join(dir, "absent.yaml")}); err == nil {
		t.Error("a file that is asked for and absent was passed over")
	}
	if _, err := Load(Options{Dir: dir, File: dir}); err == nil {
		t.Error("a directory was read")
	}
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Options{Dir: dir, File: big}); err == nil {
		t.Error("a file of more than a megabyte was read")
	}
}
