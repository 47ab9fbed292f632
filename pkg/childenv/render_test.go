package childenv

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// pem is a key in form only.
const pem = "-----BEGIN PRIVATE KEY-----\nMIIB\"VQ'IBADAN$Bgkqhkig\n9w0BAQ==\n-----END PRIVATE KEY-----\n"

// values are what has broken environment files before.
var values = map[string]string{
	"PLAIN":     "http://127.0.0.1:7474",
	"EMPTY":     "",
	"PEM":       pem,
	"JSON":      `{"a": "b $HOME \"c\" \\n", "d": ['e', "%PATH%"]}`,
	"DOLLAR":    "$HOME ${HOME} $(id) `id` $$ $1",
	"QUOTES":    `it's "quoted" ''' """ 'a'`,
	"BACKSLASH": `\ \\ \' \" \n \$ C:\Users\x\`,
	"NEWLINES":  "\na\n\nb\n\n",
	"RETURN":    "a\r\nb\r",
	"SPACES":    "  a \t b  ",
	"UNICODE":   "é 愛 😀 ‘curly’ “double” \u00a0 \u202e",
	"SHELL":     "a;b|c&d>e<f*g?h[i]j{k,l}m!n#o~p^q(r)s=t%u",
	"HASH":      "# no comment",
	"BANG":      "!! !$ !-1",
	"PERCENT":   "%PATH% %% 100%",
	"CONTROL":   "\x01\x1b[2J\x7f",
	"BYTES":     "\xff\xfe caf\xe9",
	"DASH":      "-n",
	"EQUALS":    "=a=b=",
}

func TestRenderRefusesWhatASyntaxCannotExpress(t *testing.T) {
	refused := map[string][]string{ // syntax -> variables
		Sh:     {},
		Fish:   {},
		Pwsh:   {"EMPTY", "BYTES"},
		Cmd:    {"EMPTY", "PEM", "NEWLINES", "RETURN", "UNICODE", "CONTROL", "BYTES"},
		Dotenv: {"RETURN", "BACKSLASH", "BYTES"},
		Docker: {"PEM", "NEWLINES", "RETURN", "BYTES"},
		JSON:   {"BYTES"},
	}
	for _, syntax := range Syntaxes() {
		want := map[string]bool{}
		for _, n := range refused[syntax] {
			want[n] = true
		}
		for name, v := range values {
			out, err := Render(syntax, []Var{{"FINE", "x"}, {name, v}})
			var unfit *UnfitError
			if errors.As(err, &unfit) != want[name] || (err != nil) != want[name] {
				t.Errorf("%s, %s: %q, %v; want it refused: %v", syntax, name, out, err, want[name])
				continue
			}
			if err != nil && (unfit.Name != name || unfit.Syntax != syntax || out != "" || !strings.Contains(err.Error(), name)) {
				t.Errorf("%s, %s: %q, %+v", syntax, name, out, unfit)
			}
			if err != nil && len(v) > 3 && strings.Contains(err.Error(), v) {
				t.Errorf("%s, %s: the message shows the value: %v", syntax, name, err)
			}
		}
	}
}

func TestRenderRefusesEverywhere(t *testing.T) {
	for _, syntax := range Syntaxes() {
		for _, v := range []Var{{"", "x"}, {"A B", "x"}, {"1A", "x"}, {"A=", "x"}, {"A-B", "x"}, {"Ä", "x"}, {"A;id", "x"}, {"ZERO", "a\x00b"}} {
			var unfit *UnfitError
			if out, err := Render(syntax, []Var{v}); !errors.As(err, &unfit) || out != "" {
				t.Errorf("%s, %q: %q, %v", syntax, v.Name, out, err)
			}
		}
		if _, err := Render(syntax, []Var{{"_a1", "x"}}); err != nil {
			t.Errorf("%s: %v", syntax, err)
		}
	}
	var syn *SyntaxError
	if _, err := Render("csh", nil); !errors.As(err, &syn) || !strings.Contains(err.Error(), "sh, fish, pwsh, cmd, dotenv, docker, json") {
		t.Errorf("csh: %v", err)
	}
}

// PowerShell and cmd.exe are not on the machines that run this: their quoting
// is held by table, after the rules that their comments in render.go give.
func TestPwshAndCmdByTable(t *testing.T) {
	for _, c := range []struct{ syntax, value, want string }{
		{Pwsh, "a b", "$env:X = 'a b'\n"},
		{Pwsh, "$x `n \"y\"", "$env:X = '$x `n \"y\"'\n"},
		{Pwsh, "it's", "$env:X = 'it''s'\n"},
		{Pwsh, "a\nb\n", "$env:X = 'a' + [char]10 + 'b' + [char]10 + ''\n"},
		{Pwsh, "‘x’", "$env:X = '' + [char]8216 + 'x' + [char]8217 + ''\n"},
		{Pwsh, "😀", "$env:X = '' + [char]55357 + [char]56832 + ''\n"},
		{Cmd, "a b", "set \"X=a b\"\r\n"},
		{Cmd, "100% & more", "set \"X=100%% & more\"\r\n"},
		{Cmd, `-Da="b&c" d&e`, `set "X=-Da="b^&c" d&e"` + "\r\n"},
		{Cmd, `"^<`, `set "X="^^^<"` + "\r\n"},
		{Cmd, "a\tb!", "set \"X=a\tb!\"\r\n"},
	} {
		if got, err := Render(c.syntax, []Var{{"X", c.value}}); err != nil || got != c.want {
			t.Errorf("%s %q:\n got %q, %v\nwant %q", c.syntax, c.value, got, err, c.want)
		}
	}
	if _, err := Render(Cmd, []Var{{"X", strings.Repeat("a", maxCmd)}}); err == nil {
		t.Error("cmd takes a line that is too long")
	}
	if _, err := Render(Docker, []Var{{"X", strings.Repeat("a", maxDocker)}}); err == nil {
		t.Error("docker takes a line that is too long")
	}
}

func TestDotenvQuotes(t *testing.T) {
	for value, want := range map[string]string{
		"a $b":   "X='a $b'\n",
		"it's":   "X=`it's`\n",
		"'a`":    "X=\"'a`\"\n",
		"":       "X=''\n",
		"a\nb\n": "X='a\nb\n'\n",
	} {
		if got, err := Render(Dotenv, []Var{{"X", value}}); err != nil || got != want {
			t.Errorf("%q: %q, %v", value, got, err)
		}
	}
	for _, value := range []string{"'`\"", "'`$", "'`\\n", `x\`} {
		if got, err := Render(Dotenv, []Var{{"X", value}}); err == nil {
			t.Errorf("%q: %q", value, got)
		}
	}
}

func TestJSONComesBack(t *testing.T) {
	var vars []Var
	for n, v := range values {
		if n != "BYTES" {
			vars = append(vars, Var{n, v})
		}
	}
	out, err := Render(JSON, vars)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Schema string
		Env    map[string]string
	}
	if err := json.Unmarshal([]byte(out), &back); err != nil || back.Schema != EnvSchema || !strings.HasPrefix(out, `{"schema":"lane.env/v1",`) {
		t.Fatalf("%v in %s", err, out)
	}
	for _, v := range vars {
		if back.Env[v.Name] != v.Value {
			t.Errorf("%s: %q", v.Name, back.Env[v.Name])
		}
	}
}

// readSh reads what shLine writes by the rules of POSIX for '…' and \'.
func readSh(t *testing.T, s string) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(s); {
		switch {
		case s[i] == '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				t.Fatalf("a quote that never ends: %q", s)
			}
			b.WriteString(s[i+1 : i+1+end])
			i += end + 2
		case s[i] == '\\' && i+1 < len(s):
			b.WriteByte(s[i+1])
			i += 2
		default:
			t.Fatalf("a bare %q in %q", s[i], s)
		}
	}
	return b.String()
}

func FuzzRender(f *testing.F) {
	for _, v := range values {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		vars := []Var{{"X", v}}
		for _, syntax := range Syntaxes() {
			out, err := Render(syntax, vars)
			if err != nil {
				if out != "" {
					t.Fatalf("%s: an error and output", syntax)
				}
				continue
			}
			switch syntax {
			case Sh:
				body := strings.TrimSuffix(strings.TrimPrefix(out, "export X="), "\n")
				if got := readSh(t, body); got != v {
					t.Fatalf("sh: %q comes back as %q", v, got)
				}
			case Pwsh, Cmd:
				if strings.Count(out, "\n") != 1 || strings.ContainsFunc(out, func(r rune) bool { return r > 0x7e }) {
					t.Fatalf("%s: not one line of ASCII: %q", syntax, out)
				}
			case Docker:
				if out != "X="+v+"\n" || strings.Count(out, "\n") != 1 {
					t.Fatalf("docker: %q", out)
				}
			case Dotenv:
				q := out[2:3]
				if out != "X="+q+v+q+"\n" || strings.Contains(v, q) {
					t.Fatalf("dotenv: %q", out)
				}
			}
		}
	})
}

func FuzzJava(f *testing.F) {
	f.Add(`-Xmx1g "-Da=b c" -Dhttp.proxyHost=x`)
	f.Add(`-Da='x`)
	f.Fuzz(func(t *testing.T, given string) {
		once := mergeJava(given, session, "localhost,a.example")
		if twice := mergeJava(once, session, "localhost,a.example"); twice != once {
			t.Fatalf("%q becomes %q, then %q", given, once, twice)
		}
	})
}
