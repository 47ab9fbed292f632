package cmd

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"lane/pkg/iostreams"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// values are texts that a flag has to refuse, and some that it has to take.
type values struct{ wrong, right []string }

// by are the values of flags by the word that stands for their value in the help.
// A flag without a row here takes what nobody looks at.
var by = map[string]values{
	"bool":                    {[]string{"maybe", "2"}, []string{"true", "false"}},
	"LANE":                    {[]string{"", "Bad_Name", "a b", "prod", "-a", strings.Repeat("a", 64)}, []string{"dev-alice"}},
	"SERVICE@LANE,...":        {[]string{"", "a", "a@", "@dev-a", "a@Bad_Name", "a@dev-a,", "a b@dev-a"}, []string{"order-service@dev-alice", "a@dev-a, b@baseline"}},
	"SERVICE":                 {[]string{"", "a b", "a/b", "-a", "a,b"}, []string{"order-service"}},
	"ADDRESS":                 {[]string{"foo", "8080", ":99999", ":-1", ":http", "a b:80", "1.2.3.4", "::1:80", "127.0.0.1:"}, []string{"127.0.0.1:0", "[::1]:0", "localhost:0"}},
	"HOST:PORT":               {[]string{"", "foo", ":0", "a:0", "a:99999", "a b:80", ":8080", "127.0.0.1:x"}, []string{"127.0.0.1:1", "[::1]:1"}},
	"PORT":                    {[]string{"", "x", "0", "70000", "-1", "80.5"}, []string{"8080"}},
	"IP":                      {[]string{"", "foo", "1.2.3", "1.2.3.4:80"}, []string{"10.1.2.3", "fd00::1"}},
	"PATH":                    {[]string{"", "healthz", "/a?b", "http://a/"}, []string{"/healthz"}},
	"FILE":                    {[]string{"", "$none", "$dir", "$none/x"}, []string{"$file"}},
	"'NAME: VALUE'":           {[]string{"", "x", ": x", "a b: x", "a: x\ny"}, []string{"X-User: u-1", "x:y"}},
	"NAME=VALUE":              {[]string{"", "x", "=x", "a=b\nc"}, []string{"user=dev2"}},
	"HOST":                    {[]string{"", "a b", "http://a", "a/b", "a:80"}, []string{"gw.test.example"}},
	"URL":                     {[]string{"", "%zz", "://", "http://"}, nil},
	"HEADER":                  {[]string{"a b", "x:y", "content-type", "cookie"}, []string{"auto", "traceparent", "x-trace"}},
	"FILTER":                  {[]string{"st:", "nonsense:x"}, []string{"svc:orders st:5xx", ""}},
	"DURATION":                {[]string{"", "5", "x", "-1s", "1000h", "9223372036.9s", "1e9s", "10 s"}, []string{"30s"}},
	"N":                       {[]string{"", "x", "-1", "1.5", "99999999999999999999", "0x10"}, []string{"7"}},
	"WHO":                     {[]string{"", "nobody"}, []string{"trusted", "all", "none"}},
	"WHOM":                    {[]string{"", "nobody"}, []string{"direct", "relay"}},
	"SYNTAX":                  {[]string{"", "perl"}, []string{"sh", "json"}},
	"SPAN":                    {[]string{"", "10", "30s"}, []string{"10s", "60s"}},
	"MODE":                    {[]string{"", "both"}, []string{"shared"}},
	"WAY":                     {[]string{"", "both"}, []string{"direct"}},
	"POLICY":                  {[]string{"", "both"}, []string{"fallback", "fail"}},
	"REVISION":                {[]string{"", "x", "-1"}, []string{"7", "0"}},
	"WEIGHT":                  {[]string{"", "x", "-1", "0", "70000"}, []string{"3"}},
	"DOCUMENT":                {[]string{"", "nothing-here", "0", "-3"}, []string{"7", "$file"}},
	"ID":                      {[]string{"", "x", "7"}, []string{"5f2a1f0e9b9c4c0e8a4d2b7c6e1f3a90"}},
	"RANGE":                   {[]string{"", "x", "9-3", "0-5", "1-99999", "1-"}, []string{"21000-21010", "21000"}},
	"LANES":                   {[]string{"", "*", "Dev", "dev-al*", "dev,,x"}, []string{"dev-alice,dev-alice-*"}},
	"SERVICES":                {[]string{"", "A", "a_b", "a,,b"}, []string{"*", "order-service,shop-*"}},
	"SHA256":                  {[]string{"", "x", "sha256:17ed"}, []string{"sha256:" + strings.Repeat("a1", 32)}},
	"ENV":                     {[]string{"", " a", "a b", "a,b", "env=a", "a\x01b", strings.Repeat("a", 600)}, []string{"test", "pre-prod.eu"}},
	"TENANT":                  {[]string{"", " a", "a b", "a;b"}, []string{"acme"}},
	"ZONE":                    {[]string{"", " a", "a b", "a;b"}, []string{"eu-1"}},
	"VERSION":                 {[]string{"", " a", "a b", "a;b"}, []string{"v2"}},
	"NAME=PORT":               {[]string{"", "8080", "a", "a=", "a=x", "a=0", "A_b=80", "a=10.0.0.1:80"}, []string{"order-service=8080"}},
	"TEXT":                    {nil, []string{"anything at all", ""}},
	"PREFIX":                  {nil, []string{"gateway:canary:"}},
	"ROUTE":                   {nil, []string{"buyer-api"}},
	"[HOST][/PREFIX]=SERVICE": {[]string{"", "a b", "/x=", "a:80/x=s", "/a/../b=s", "a*b=s", "=s", "="}, []string{"shop.test/api=s", "/api=s", "s"}},
}

// of are those of flags that differ from others with the same word.
var of = map[string]values{
	"lane relay --byte-rate":         {[]string{"", "fast", "1", "2TiB", "1 MiB", "-1KiB"}, []string{"1MiB", "1073741824"}},
	"lane relay --token-bytes":       {[]string{"", "much", "-1", "99999999TiB"}, []string{"0", "64KiB"}},
	"lane check chain --samples":     {[]string{"0", "101", "x"}, []string{"1", "100"}},
	"lane check chain --timeout":     {[]string{"0s", "x"}, []string{"1s"}},
	"lane ca init --host":            {[]string{"", "a b", "*", "10.0.0.1", "*.*.a"}, []string{"*.test.example", "order-service"}},
	"lane kill --all":                {[]string{"maybe"}, []string{"true"}},
	"lane unkill --all":              {[]string{"maybe"}, []string{"true"}},
	"lane demo --rate":               {[]string{"0", "101", "x"}, []string{"100"}},
	"lane doctor --probe":            {[]string{"", "foo", "%zz", "http://"}, []string{"127.0.0.1:1", "http://127.0.0.1:1/x"}},
	"lane doctor --service":          {[]string{"", "A_b=80", "a=x"}, []string{"order-service", "order-service=8080"}},
	"lane explain --redis":           {[]string{"x", "http://a", "redis://u:secret@a"}, []string{"redis://127.0.0.1:1"}},
	"lane explain --rules":           {[]string{"", "$none", "$dir"}, []string{"$rules", "active"}},
	"lane explain --snapshot":        {[]string{"", "$none", "$dir"}, []string{"$snapshot"}},
	"lane explain --config":          {[]string{"", "$none", "$dir"}, []string{"$routes"}},
	"lane expose --relay":            {[]string{"http://a", "wss://u:p@a", "a"}, []string{"wss://127.0.0.1:1"}},
	"lane gateway --access-log":      {[]string{"", "$dir", "$none/x"}, []string{"$none", "$file", "-"}},
	"lane gateway --config":          {[]string{"", "$none", "$dir"}, []string{"$routes"}},
	"lane gateway --expose":          {[]string{"", "nobody"}, []string{"trusted", "all", "none"}},
	"lane gateway --redis":           {[]string{"x", "http://a", "redis://u:secret@a"}, []string{"redis://127.0.0.1:1"}},
	"lane gateway --rules":           {[]string{"", "$none", "$dir"}, []string{"$rules"}},
	"lane init --preset":             {[]string{"", "nobody", "msee"}, []string{"mse"}},
	"lane init --service":            {[]string{"", "No Good", "a_b"}, []string{"order-service"}},
	"lane relay --access-log":        {[]string{"", "$dir", "$none/x"}, []string{"$none", "-"}},
	"lane relay --audit":             {[]string{"", "$dir", "$none/x"}, []string{"$none", "-"}},
	"lane relay --claim-ttl":         {[]string{"9s", "25h", "x"}, []string{"10s", "24h"}},
	"lane relay --client-ca":         {[]string{"", "$none", "$dir"}, nil}, // what is in it is another test's
	"lane relay --cert":              {[]string{"", "$none", "$dir"}, nil},
	"lane relay --key":               {[]string{"", "$none", "$dir"}, nil},
	"lane relay --deny":              {[]string{"", "A", "a b"}, []string{"order-service"}},
	"lane relay --token-key":         {[]string{"", "$none", "$dir", "$file"}, nil}, // what is in it is another test's
	"lane relay --without-token":     {[]string{"maybe"}, []string{"false"}},        // true goes with --client-ca
	"lane relay token create --out":  {[]string{"", "$dir", "$none/x"}, []string{"$none"}},
	"lane relay token create --ttl":  {[]string{"0s", "13h", "x"}, []string{"4h"}},
	"lane relay token create --user": {[]string{"", "a b", "-a"}, []string{"alice"}},
	"lane relay token revoke --user": {[]string{"", "a b", "-a"}, []string{"alice"}},
	"lane rules diff --sample":       {[]string{"", "$none", "$dir", "$file"}, []string{"$samples"}},
	"lane rules history --limit":     {[]string{"", "0", "x"}, []string{"1"}},
	"lane sidecar --access-log":      {[]string{"", "$dir", "$none/x"}, []string{"$none", "-"}},
	"lane sidecar --app":             {[]string{"", "foo", "0", "a:0", ":8080"}, []string{"8080", "127.0.0.1:8080"}},
	"lane sidecar --redis":           {[]string{"x", "http://a", "redis://u:secret@a"}, []string{"redis://127.0.0.1:1"}},
	"lane sidecar --rules":           {[]string{"", "$none", "$dir"}, []string{"$rules", "registry"}},
	"lane check clean --for":         {[]string{"0s", "x", "25h"}, []string{"1s", "10m"}},
	"lane sidecar --service":         {[]string{"", "a b", "A_b"}, []string{"order-service"}},
	"lane sidecar --traces":          {[]string{"0", "x"}, []string{"1"}},
	"lane sidecar --trace-ttl":       {[]string{"0s", "x", "25h"}, []string{"1s"}},
	"lane switch --watch":            {[]string{"0s", "x"}, []string{"1s"}},
	"lane top --interval":            {[]string{"100ms", "x"}, []string{"500ms"}},
	"lane up --owner":                {[]string{"", " a", strings.Repeat("a", 200)}, []string{"alice"}},
	"lane up --guard":                {[]string{"", "both"}, []string{"bounce", "reject"}},
	"lane up --proxy":                {[]string{"", "foo", "10.0.0.1:80", "127.0.0.1:99999"}, []string{"127.0.0.1:0"}},
	"lane up --relay":                {[]string{"", "http://a", "wss://u:p@a", "a"}, []string{"none"}},
	"lane verify --timeout":          {[]string{"0s", "x"}, []string{"1s"}},
}

// preset is the word NAME of settings.
var preset = values{[]string{"", "nobody", "msee"}, []string{"mse"}}

// besides are the other arguments that a command needs.
var besides = map[string][]string{
	"lane up": {"dev-a"}, "lane show": {"dev-a"}, "lane explain": {"http://orders/"}, "lane verify": {"http://orders/"}, "lane check chain": {"http://orders/"}, "lane check residue": {"http://orders/"}, "lane check ready": {"dev-a"}, "lane check trace": {"4bf92f3577b34da6a3ce929d0e0e4736"}, "lane check clean": {"dev-a"}, "lane kill": {"dev-a"},
	"lane unkill": {"dev-a"}, "lane expose": {"--lane=dev-a", "--relay=wss://127.0.0.1:1", "debugger=5005"}, "lane gateway": {"--listen=127.0.0.1:0", "--route=s"},
	"lane sidecar": {"--service=s", "--app=1", "--listen=127.0.0.1:0", "--outbound=127.0.0.1:0"}, "lane relay": {"--listen=127.0.0.1:0"},
	"lane registry": {"--listen=127.0.0.1:0"}, "lane rules lint": {"$rules"}, "lane rules diff": {"$rules"}, "lane rules push": {"$rules"},
	"lane rules propose": {"$rules"}, "lane rules rollback": {"7"}, "lane rules approve": {"5f2a1f0e9b9c4c0e8a4d2b7c6e1f3a90"}, "lane init": {"--service=s", "--yes"},
	"lane rules whitelist add": {"r", "u"}, "lane rules whitelist remove": {"r", "u"}, "lane policy set": {"s", "shared"}, "lane policy clear": {"s"},
	"lane relay token create": {"--user=alice"}, "lane demo": {"--once"},
}

// wants are what some flags go with.
var wants = map[string][]string{
	"lane explain --rules": {"--entry=s"}, "lane explain --entry": {"--rules=active"}, "lane explain --config": {"--rules=active"}, "lane explain --route": {"--rules=active"},
	"lane explain --remote": {"--rules=active", "--entry=s"}, "lane explain --whitelisted": {"--rules=active", "--entry=s"},
	"lane explain --redis": {"--rules=active"}, "lane explain --redis-prefix": {"--rules=active"}, "lane doctor --mode": {"--policy"},
	"lane sidecar --weight": {"--register"}, "lane sidecar --redis": {"--rules=registry"}, "lane sidecar --redis-prefix": {"--rules=registry"}, "lane kill --drain": {"--deregister"}, "lane up --json": {"-d"}, "lane switch --clear": {"orders"},
	"lane switch --wait": {"orders", "green"}, "lane switch --cache-ttl": {"orders", "green", "--wait"}, "lane switch --watch": {"orders", "green", "--wait"},
}

// alone are flags that stand without what the command needs else.
var alone = []string{"lane gateway --config", "lane gateway --route", "lane explain --snapshot", "lane rules propose --withdraw", "lane kill --all", "lane unkill --all"}

// A wrong value of a flag, of any command, is a usage error that names the flag and
// the value, and says what to do; a right one is none. A command without a row for
// one of its flags has a flag that nobody checks.
func TestFlagsAreChecked(t *testing.T) {
	n := 0
	everyCommand(newRootCmd(&factory{io: &iostreams.IOStreams{}, getenv: func(string) string { return "" }}, ""), func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			name := c.CommandPath() + " --" + f.Name
			if f.Name == "help" || name == "lane --version" {
				return
			}
			word, _ := pflag.UnquoteUsage(f)
			v, own := of[name]
			switch {
			case own:
			case f.Name == "preset":
				v = preset
			case word == "": // as the help has it for true and false
				v = by["bool"]
			default:
				v = by[word]
			}
			if len(v.wrong)+len(v.right) == 0 {
				t.Errorf("%s: nothing is known of a %q", name, word)
			}
			rest := slices.Concat(besides[c.CommandPath()], wants[name])
			if slices.Contains(alone, name) {
				rest = nil
			}
			run := func(value string) (code int, errOut, given string) {
				w := newBadWorld(t)
				given = w.in(value)
				args := strings.Fields(c.CommandPath())[1:]
				for _, a := range append(rest, "--"+f.Name+"="+given) { // the last one of a flag holds
					args = append(args, w.in(a))
				}
				code, errOut = w.run(t, args)
				return code, errOut, given
			}
			for _, value := range v.wrong {
				n++
				code, errOut, given := run(value)
				said, hint, _ := strings.Cut(errOut, "\n")
				secret := strings.Contains(value, "secret") || strings.HasSuffix(name, " --redis") || strings.HasSuffix(name, " --relay")
				switch {
				case code != exitUsage:
					t.Errorf("%s=%q: exit code %d: %s", name, value, code, errOut)
				case !strings.Contains(said, "--"+f.Name) && !strings.Contains(said, "-"+f.Shorthand+":"):
					t.Errorf("%s=%q is not named: %s", name, value, errOut)
				case !secret && !strings.Contains(said, shortly(given)) && !strings.Contains(said, "longer than"):
					t.Errorf("%s=%q: the value is not named: %s", name, value, errOut)
				case strings.Contains(errOut, "secret"):
					t.Errorf("%s: a secret is shown: %s", name, errOut)
				case strings.TrimSpace(hint) == "" || strings.Count(errOut, "\n") != 2:
					t.Errorf("%s=%q: what is to be done? %q", name, value, errOut)
				case strings.Contains(said, "strconv") || strings.Contains(said, "time: ") || strings.Contains(said, "invalid argument"):
					t.Errorf("%s=%q is answered by a library: %s", name, value, errOut)
				}
			}
			for _, value := range v.right {
				n++
				if code, errOut, _ := run(value); code == exitUsage {
					t.Errorf("%s=%q is refused: %s", name, value, errOut)
				}
			}
		})
	})
	if n < 500 {
		t.Errorf("only %d values", n)
	}
}

// mistakes are arguments that no command takes, and what has to be said of each.
var mistakes = []struct {
	args []string
	want string
}{
	{[]string{"nonsense"}, "no command"},
	{[]string{"curll"}, "did you mean lane curl?"},
	{[]string{"rules", "lnt"}, "did you mean lane rules lint?"},
	{[]string{"help", "nonsense"}, "no command"},
	{[]string{"help", "rules", "nonsense"}, "no command"},
	{[]string{"completion", "perl"}, "completion perl"},
	{[]string{"gateway", "--lisen=x"}, "did you mean --listen?"},
	{[]string{"gateway", "-q"}, "-q"},
	{[]string{"gateway", "--listen"}, "no ADDRESS"},
	{[]string{"gateway", "--=x"}, "--=x"},
	{[]string{"gateway"}, "--route"},
	{[]string{"gateway", "--route=s", "--route=s"}, "led to s already"},
	{[]string{"gateway", "--route=s", "--rules=$file"}, "docs/rules.md"},
	{[]string{"gateway", "--config=$file"}, "docs/gateway.md"},
	{[]string{"sidecar"}, "--service is missing"},
	{[]string{"sidecar", "--service=s"}, "--app is missing"},
	{[]string{"sidecar", "--service=s", "--app=1", "--weight=3"}, "--register"},
	{[]string{"relay", "--cert=$file"}, "--key"},
	{[]string{"relay", "nonsense"}, "relay nonsense"},
	{[]string{"relay", "token", "nonsense"}, "token nonsense"},
	{[]string{"relay", "token", "create"}, "--user is missing"},
	{[]string{"relay", "token", "revoke"}, "--user"},
	{[]string{"relay", "token", "revoke", "a b"}, "a b"},
	{[]string{"up"}, "dev-alice"},
	{[]string{"up", "Bad_Name"}, "bad-name"},
	{[]string{"up", "prod"}, "reserved"},
	{[]string{"up", "dev-a", "dev-b"}, "dev-b"},
	{[]string{"up", "dev-a", "--"}, "-- COMMAND"},
	{[]string{"up", "dev-a", "--join", "--takeover"}, "not both"},
	{[]string{"up", "dev-a", "--json"}, "-d"},
	{[]string{"down", "Bad_Name"}, "Bad_Name"},
	{[]string{"status", "Bad_Name"}, "Bad_Name"},
	{[]string{"tail", "Bad_Name"}, "Bad_Name"},
	{[]string{"show", "Bad_Name"}, "Bad_Name"},
	{[]string{"show"}, "LANE"},
	{[]string{"kill", "Bad_Name"}, "Bad_Name"},
	{[]string{"kill"}, "--all"},
	{[]string{"kill", "dev-a", "--all"}, "not both"},
	{[]string{"kill", "dev-a", "--drain=1s"}, "--deregister"},
	{[]string{"unkill", "Bad_Name"}, "Bad_Name"},
	{[]string{"expose", "debugger"}, "debugger"},
	{[]string{"expose", "debugger=5005"}, "--lane"},
	{[]string{"expose", "debugger=5005", "--lane=dev-a"}, "--relay"},
	{[]string{"expose", "Debugger=5005", "--lane=dev-a", "--relay=wss://a"}, "Debugger"},
	{[]string{"curl", "--lane"}, "--lane"},
	{[]string{"curl", "--lane", "dev-a"}, "no URL"},
	{[]string{"curl", "--lane=Bad_Name", "http://a/"}, "Bad_Name"},
	{[]string{"curl", "--diff=xml", "http://a/"}, "xml"},
	{[]string{"curl", "--ignore"}, "--ignore"},
	{[]string{"curl", "--diff", "--ignore", "nonsense", "http://a/"}, "nonsense"},
	{[]string{"curl", "--ignore", "body", "http://a/"}, "--diff"},
	{[]string{"run", "--"}, "lane run -- COMMAND"},
	{[]string{"run", "--lane", "Bad_Name", "--", "true"}, "Bad_Name"},
	{[]string{"explain"}, "URL"},
	{[]string{"explain", "http://"}, "http://order-service"},
	{[]string{"explain", "http://a/", "--entry=s"}, "--rules"},
	{[]string{"explain", "http://a/", "--rules=active", "--lane=dev-a"}, "x-lane-tag"},
	{[]string{"explain", "http://a/", "--rules=active", "--snapshot=$snapshot"}, "lane rules get"},
	{[]string{"explain", "http://a/", "--rules=$file", "--entry=s"}, "docs/rules.md"},
	{[]string{"explain", "--snapshot=$file"}, "docs/routing.md"},
	{[]string{"verify", "ftp://a/"}, "ftp"},
	{[]string{"verify", "http://"}, "http://order-service"},
	{[]string{"doctor", "--mode=shared"}, "--policy"},
	{[]string{"gc", "--dry-run", "--yes"}, "--dry-run"},
	{[]string{"switch", "a b"}, "a b"},
	{[]string{"switch", "orders", " green"}, " green"},
	{[]string{"switch", "orders", "gr\neen"}, "lane switch orders"},
	{[]string{"switch", "--clear"}, "SERVICE"},
	{[]string{"switch", "orders", "--wait"}, "GROUP"},
	{[]string{"policy", "nonsense"}, "policy nonsense"},
	{[]string{"policy", "set", "orders"}, "shared|isolated"},
	{[]string{"policy", "set", "orders", "both"}, "shared or isolated"},
	{[]string{"policy", "set", "a b", "shared"}, "a b"},
	{[]string{"policy", "clear", "a b"}, "a b"},
	{[]string{"check", "ready", "Bad_Name"}, "Bad_Name"},
	{[]string{"check", "trace", "a b"}, "a b"},
	{[]string{"check", "trace", ""}, "trace"},
	{[]string{"rules", "lint"}, "FILE"},
	{[]string{"rules", "lint", "$none"}, "$none"},
	{[]string{"rules", "push", "$none"}, "$none"},
	{[]string{"rules", "push", "$dir"}, "$dir"},
	{[]string{"rules", "propose", "$none"}, "$none"},
	{[]string{"rules", "diff", "nonsense"}, "nonsense"},
	{[]string{"rules", "get", "nonsense"}, "nonsense"},
	{[]string{"rules", "get", "0"}, "lane rules history"},
	{[]string{"rules", "rollback", "0"}, "lane rules history"},
	{[]string{"rules", "approve", "nonsense"}, "nonsense"},
	{[]string{"rules", "policies", "nonsense"}, "lane-rules-propose"},
	{[]string{"rules", "whitelist", "add", "buyer-api"}, "USER"},
	{[]string{"rules", "whitelist", "add", "buyer-api", " "}, "identity"},
	{[]string{"rules", "whitelist", "add", "a/../b", "u"}, "a/../b"},
	{[]string{"rules", "whitelist", "remove", "", "u"}, "route"},
	{[]string{"rules", "whitelist", "list", "a/../b"}, "a/../b"},
}

// helpful reports whether an error says what to do: behind it, or what has to be.
func helpful(errOut string) bool {
	return strings.Count(errOut, "\n") > 1 || strings.Contains(errOut, " must ") || strings.Contains(errOut, "try ") || strings.Contains(errOut, " only")
}

// A wrong argument is a usage error, too, that says what to do, before anybody is
// asked for anything.
func TestArgumentsAreChecked(t *testing.T) {
	for _, m := range mistakes {
		w := newBadWorld(t)
		args := make([]string, len(m.args))
		for i, a := range m.args {
			args[i] = w.in(a)
		}
		code, errOut := w.run(t, args)
		if code != exitUsage || !strings.Contains(errOut, w.in(m.want)) || !helpful(errOut) {
			t.Errorf("lane %q: exit code %d, want %s in it: %s", m.args, code, m.want, errOut)
		}
	}
	everyCommand(newRootCmd(&factory{io: &iostreams.IOStreams{}, getenv: func(string) string { return "" }}, ""), func(c *cobra.Command) {
		if c.DisableFlagParsing || strings.Contains(c.Use, "...") && c.Name() != "up" {
			return
		}
		w := newBadWorld(t)
		code, errOut := w.run(t, append(strings.Fields(c.CommandPath())[1:], "one", "two", "three", "four"))
		if code != exitUsage || !strings.Contains(errOut, "one") && !strings.Contains(errOut, "four") && !strings.Contains(errOut, "4") && !strings.Contains(errOut, "t") {
			t.Errorf("%s with four arguments: exit code %d: %s", c.CommandPath(), code, errOut)
		}
	})
}

// A variable is held to the same as the flag in whose place it stands.
func TestVariablesAreChecked(t *testing.T) {
	for _, c := range []struct{ name, value, args string }{
		{"LANE_TAG", "Bad_Name", "status"}, {"LANE_TAG", "Bad_Name", "down"}, {"LANE_TAG", "Bad_Name", "env"}, {"LANE_TAG", "Bad_Name", "up"},
		{"LANE_DRAIN", "5", "up dev-a"}, {"LANE_PROXY_LISTEN", "foo", "up dev-a"}, {"LANE_MAX_STALE", "x", "gateway --route=s"},
		{"LANE_REDIS_URL", "x", "gateway --route=s"}, {"CONSUL_HTTP_ADDR", "not an address", "ls"}, {"CONSUL_HTTP_SSL", "maybe", "ls"},
		{"CONSUL_HTTP_TOKEN_FILE", "/nonexistent/token", "ls"}, {"CONSUL_CACERT", "/nonexistent/ca.pem", "ls"},
	} {
		w := newBadWorld(t)
		base := w.getenv
		w.getenv = func(name string) string {
			if name == c.name {
				return c.value
			}
			return base(name)
		}
		code, errOut := w.run(t, strings.Fields(c.args))
		if code != exitUsage || !strings.Contains(errOut, c.name) && !strings.Contains(errOut, c.value) || !helpful(errOut) {
			t.Errorf("%s=%s lane %s: exit code %d: %s", c.name, c.value, c.args, code, errOut)
		}
	}
}

// shortly is a value as it is quoted in a message, or its beginning.
func shortly(value string) string {
	q := []rune(strings.Trim(strings.ReplaceAll(value, "\n", `\n`), " "))
	return strings.ReplaceAll(string(q[:min(len(q), 20)]), "\x01", `\x01`)
}

func everyCommand(c *cobra.Command, visit func(*cobra.Command)) {
	if c.Hidden || c.Name() == "completion" || c.Name() == "help" {
		return
	}
	visit(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, visit)
	}
}

// badWorld is a place in which nothing answers, and nothing begins.
type badWorld struct {
	dir    string
	paths  *strings.Replacer
	getenv func(string) string
}

func newBadWorld(t *testing.T) *badWorld {
	dir := t.TempDir()
	for name, text := range map[string]string{"file": "x", "rules": "rules: []\n", "routes": "routes: [{service: s}]\n", "snapshot": `{"instances":[]}`, "samples": "[]"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"CONSUL_HTTP_ADDR": "127.0.0.1:1", "LANE_STATE_DIR": filepath.Join(dir, "state"), "LANE_RUNTIME_DIR": filepath.Join(dir, "run"),
		"LANE_RELAY_TOKEN": "x", "LANE_PROXY_LISTEN": "127.0.0.1:0"}
	w := &badWorld{dir: dir, getenv: func(name string) string { return env[name] }}
	var pairs []string
	for _, name := range []string{"file", "rules", "routes", "snapshot", "samples", "none"} {
		pairs = append(pairs, "$"+name, filepath.Join(dir, name))
	}
	w.paths = strings.NewReplacer(append(pairs, "$dir", dir)...)
	return w
}

func (w *badWorld) in(value string) string { return w.paths.Replace(value) }

// run runs a command line that a signal has ended before it began: only what is done
// before all else happens.
func (w *badWorld) run(t *testing.T, args []string) (code int, errOut string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	s, _, _, stderr := iostreams.Test()
	f := &factory{io: s, getenv: w.getenv, dir: t.TempDir(), now: time.Now, executable: func() (string, error) { return "/nonexistent/lane", nil }, build: debug.ReadBuildInfo}
	code = f.run(ctx, args)
	return code, stderr.String()
}
