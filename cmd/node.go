package cmd

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Node's clients use a proxy only since these versions, and only with
// NODE_USE_ENV_PROXY, which a session sets: fetch since 24.0, http.request since
// 24.5, both since 22.21. 23 ended without.
const nodeWanted = "use Node 22.21+ or 24.5+"

// nodeLimit bounds the question for a version: a broken node must not keep its
// user from the command.
const nodeLimit = 5 * time.Second

// warnNode says that a command's Node is too old to use the session's proxy: its
// calls would be untagged, and nothing else would say so.
func (f *factory) warnNode(ctx context.Context, command string) error {
	node := nodeOf(command)
	if node == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeLimit)
	defer cancel()
	c := exec.CommandContext(ctx, node, "--version")
	c.Env, c.WaitDelay = f.environ, nodeLimit
	out, err := c.Output()
	if err != nil {
		return nil // the command itself will say what is wrong with it
	}
	version := strings.TrimSpace(string(out))
	misses := nodeMisses(version)
	if misses == "" {
		return nil
	}
	_, err = fmt.Fprintf(f.io.Err, "lane: Node %s %s: such calls go past the lane's proxy, untagged; %s (what else helps: docs/clients.md)\n", version, misses, nodeWanted)
	return err
}

// nodeMisses says what of NODE_USE_ENV_PROXY a version, such as v20.11.1, lacks;
// nothing if it has all, or is no version.
func nodeMisses(version string) string {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "v%d.%d.", &major, &minor); n != 2 {
		return ""
	}
	switch {
	case major > 24, major == 24 && minor >= 5, major == 22 && minor >= 21:
		return ""
	case major == 24:
		return "knows NODE_USE_ENV_PROXY in fetch alone, not in http.request"
	}
	return "ignores NODE_USE_ENV_PROXY"
}

// nodeOf is the path of the node that a command is, or that runs it: a script
// names it in its first line. Empty if there is none.
func nodeOf(command string) string {
	path, err := exec.LookPath(command)
	if err != nil {
		return ""
	}
	name := strings.ToLower(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	if name == "node" || name == "nodejs" {
		return path
	}
	// On Windows these are batch files.
	if !slices.Contains([]string{"npm", "npx", "yarn", "pnpm"}, name) && !runByNode(path) {
		return ""
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return ""
	}
	return node
}

// runByNode says whether a file's first line is #! with a node at its end, as
// in #!/usr/bin/env node.
func runByNode(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	line, _, err := bufio.NewReaderSize(file, 256).ReadLine()
	if err != nil || !strings.HasPrefix(string(line), "#!") {
		return false
	}
	return slices.ContainsFunc(strings.Fields(string(line[2:])), func(w string) bool { return filepath.Base(w) == "node" })
}
