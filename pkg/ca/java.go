package ca

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// JavaPassword is the password of trust stores, which hold nothing secret: the one
// that every JVM's own has.
const JavaPassword = "changeit"

// ErrNoKeytool says that there is no JDK or JRE to make a trust store with.
var ErrNoKeytool = errors.New("no keytool in JAVA_HOME or on the PATH")

// JavaStore makes a trust store of a JVM's own roots and this authority, in PKCS12,
// and returns its path. javaHome, if set, comes before the PATH.
func (a *Authority) JavaStore(ctx context.Context, javaHome string) (string, error) {
	tool, err := keytool(javaHome)
	if err != nil {
		return "", err
	}
	base, roots, err := jvmRoots(tool)
	if err != nil {
		return "", err
	}
	return a.keep("java-", ".p12", append(roots, a.Cert.Raw...), func(path string) error {
		common := []string{"-noprompt", "-storepass", JavaPassword}
		if err := runKeytool(ctx, tool, "-importkeystore", "-noprompt", "-srckeystore", base, "-srcstorepass", JavaPassword,
			"-destkeystore", path, "-deststoretype", "PKCS12", "-deststorepass", JavaPassword); err != nil {
			return err
		}
		return runKeytool(ctx, tool, append([]string{"-importcert", "-alias", "lane-ca", "-file", a.Path, "-keystore", path}, common...)...)
	})
}

func keytool(javaHome string) (string, error) {
	name := "keytool"
	if javaHome != "" {
		if p, err := exec.LookPath(filepath.Join(javaHome, "bin", name)); err == nil {
			return p, nil
		}
	}
	p, err := exec.LookPath(name)
	if err != nil {
		return "", ErrNoKeytool
	}
	return p, nil
}

// jvmRoots reads the trust store of the JVM that a keytool belongs to.
func jvmRoots(tool string) (path string, content []byte, err error) {
	real, err := filepath.EvalSymlinks(tool)
	if err != nil {
		return "", nil, fmt.Errorf("find the JVM of %s: %w", tool, err)
	}
	home := filepath.Dir(filepath.Dir(real))
	for _, p := range []string{filepath.Join(home, "lib"), filepath.Join(home, "jre", "lib")} { // the second one in a JDK 8
		path = filepath.Join(p, "security", "cacerts")
		if content, err = os.ReadFile(path); err == nil {
			return path, content, nil
		}
	}
	return "", nil, fmt.Errorf("read the JVM's roots: %w", err)
}

// quickly keeps a JVM from preparing for a long life, and from hashing a public
// password ten thousand times for each of a hundred public certificates.
var quickly = []string{"-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC",
	"-J-Dkeystore.pkcs12.certPbeIterationCount=1000", "-J-Dkeystore.pkcs12.macIterationCount=1000"}

func runKeytool(ctx context.Context, tool string, args ...string) error {
	c := exec.CommandContext(ctx, tool, append(slices.Clone(quickly), args...)...)
	for _, kv := range os.Environ() {
		// A JVM that is told to use a store that is not made yet does not start.
		if !strings.HasPrefix(kv, "JAVA_TOOL_OPTIONS=") && !strings.HasPrefix(kv, "JDK_JAVA_OPTIONS=") {
			c.Env = append(c.Env, kv)
		}
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return fmt.Errorf("keytool %s: %w: %s", args[0], err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}
