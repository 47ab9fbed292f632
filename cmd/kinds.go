package cmd

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	adminport "lane/pkg/admin"
	"lane/pkg/ca"
	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/proxy"
	"lane/pkg/token"
	"lane/pkg/tracemap"
	"lane/pkg/traffic"
	"lane/pkg/whitelist"
)

// checked is a kind of texts that are kept as they are.
func checked(word string, check func(string) error) kind[string] {
	return kind[string]{word, func(s string) (string, error) { return s, check(s) }}
}

// anyText is a kind of texts of which none is wrong.
func anyText(word string) kind[string] { return checked(word, func(string) error { return nil }) }

// The kinds of values.
var (
	aLane = checked("LANE", func(s string) error {
		_, err := readLane(s)
		return err
	})
	aService    = checked("SERVICE", config.CheckServiceName)
	anOwnName   = checked("NAME", config.CheckOwnName)
	anAddress   = checked("ADDRESS", config.CheckListen)
	aHostPort   = checked("HOST:PORT", config.CheckHostPort)
	aPort       = kind[int]{"PORT", config.CheckPort}
	anIP        = kind[netip.Addr]{"IP", readIP}
	aPath       = kind[string]{"PATH", config.CheckPath}
	aFile       = checked("FILE", checkFile)
	aNewFile    = checked("FILE", checkNewFile)
	aHeader     = checked("'NAME: VALUE'", config.CheckHeaderLine)
	aCookie     = checked("NAME=VALUE", checkCookie)
	aHost       = checked("HOST", ca.CheckHost)
	anAdminHost = checked("HOST", adminport.CheckHost)
	aRedis      = checked("URL", checkRedis)
	aProbe      = checked("URL", checkProbe)
	aProposal   = checked("ID", checkProposal)
	aUser       = checked("NAME", token.CheckUser)
	laneList    = kind[[]string]{"LANES", patterns(token.CheckLane)}
	serviceList = kind[[]string]{"SERVICES", patterns(token.CheckService)}
	aTrace      = kind[tracemap.Sources]{"HEADER", tracemap.ParseSources}
	aFilter     = kind[traffic.Filter]{"FILTER", traffic.ParseFilter}
	aRoute      = kind[proxy.Route]{"[HOST][/PREFIX]=SERVICE", readRoute}
)

// duration is a time to wait, within bounds.
func duration(least, most time.Duration) kind[time.Duration] {
	return kind[time.Duration]{"DURATION", func(s string) (time.Duration, error) { return config.CheckDuration(s, least, most) }}
}

// longest is the longest time that anybody has to wait for.
const longest = time.Hour

// number is a whole number within bounds.
func number(least, most int) kind[int] {
	return kind[int]{"N", func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			return 0, fmt.Errorf("%q is no whole number", s)
		case err != nil || n < least || n > most:
			return 0, fmt.Errorf("%q is not between %d and %d", s, least, most)
		}
		return n, nil
	}}
}

// one is one of some words.
func one(word string, of ...string) kind[string] {
	return checked(word, func(s string) error {
		if !slices.Contains(of, s) {
			return fmt.Errorf("%q is none of %s", s, strings.Join(of, ", "))
		}
		return nil
	})
}

// or is a kind that takes some words besides.
func or(k kind[string], more ...string) kind[string] {
	return checked(k.word, func(s string) error {
		if slices.Contains(more, s) {
			return nil
		}
		_, err := k.of(s)
		return err
	})
}

// checkService wants a service of this machine, with its port or without.
func checkService(s string) error {
	_, err := config.ParseService(s)
	return err
}

func readIP(s string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return ip, fmt.Errorf("%q is no IP address", s)
	}
	return ip.Unmap(), nil
}

// checkFile wants a file that is there, and no directory.
func checkFile(s string) error {
	at, err := os.Stat(s)
	switch {
	case err != nil:
		return fileError(s, err)
	case at.IsDir():
		return fmt.Errorf("%q is a directory, not a file", s)
	}
	return nil
}

// checkNewFile wants a file that is there, or that can be made.
func checkNewFile(s string) error {
	if at, err := os.Stat(s); s == "" || err == nil && at.IsDir() {
		return fmt.Errorf("%q is no file", s)
	}
	if at, err := os.Stat(filepath.Dir(s)); err != nil || !at.IsDir() {
		return fmt.Errorf("%q: there is no directory %s", s, filepath.Dir(s))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// fileError is the reason alone: the file's name is said, and how it was looked at is
// nobody's business.
func fileError(name string, err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%q: %w", name, err)
}

func checkCookie(s string) error {
	if name, _, ok := strings.Cut(s, "="); !ok || strings.TrimSpace(name) == "" || strings.ContainsAny(s, "\r\n\x00") {
		return fmt.Errorf("%q is not of the form NAME=VALUE", s)
	}
	return nil
}

// checkRedis never shows the URL: a password may be in it.
func checkRedis(s string) error {
	if u, err := url.Parse(s); err == nil && u.User != nil {
		if _, secret := u.User.Password(); secret {
			return usagef("every user of this machine can read a command line: set LANE_REDIS_URL", "it has a password in it")
		}
	}
	return whitelist.CheckURL(s)
}

func checkProposal(s string) error {
	if !consul.IsProposalID(s) {
		return usagef("`lane rules approve` lists the proposals", "%q is no proposal's ID", s)
	}
	return nil
}

// patterns reads a list of patterns, between commas.
func patterns(check func(string) error) func(string) ([]string, error) {
	return func(s string) ([]string, error) {
		all := strings.Split(s, ",")
		for _, p := range all {
			if p == "" {
				return nil, fmt.Errorf("%q: a name is missing", s)
			}
			if err := check(p); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
}

// readRoute reads [HOST][/PREFIX]=SERVICE, or SERVICE alone.
// checkProbe wants a URL that can be seen to be one: a word alone is a slip, or a
// service, which only the lane's proxy finds.
func checkProbe(text string) error {
	if !strings.ContainsAny(text, "./:") {
		return fmt.Errorf("%q is no URL such as http://gateway.test.example/headers", text)
	}
	_, err := readURL(text)
	return err
}

func readRoute(text string) (proxy.Route, error) {
	where, service, ok := strings.Cut(text, "=")
	if !ok {
		where, service = "", text
	} else if where == "" {
		return proxy.Route{}, fmt.Errorf("%q has nothing before its =; SERVICE alone is for everything", text)
	}
	r := proxy.Route{Host: where, Service: service}
	if i := strings.IndexByte(where, '/'); i >= 0 {
		r.Host, r.Prefix = where[:i], where[i:]
	}
	if err := proxy.CheckRoutes([]proxy.Route{r}); err != nil {
		return r, fmt.Errorf("%q: %s", text, strings.TrimPrefix(err.Error(), "route 1: "))
	}
	return r, nil
}
