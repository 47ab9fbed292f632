package childenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The syntaxes that Render writes.
const (
	Sh     = "sh"     // eval "$(lane env)": sh, bash, zsh, dash
	Fish   = "fish"   // lane env --syntax fish | source
	Pwsh   = "pwsh"   // lane env --syntax pwsh | Invoke-Expression
	Cmd    = "cmd"    // a batch file, to be called
	Dotenv = "dotenv" // node --env-file and the readers that follow it
	Docker = "docker" // docker run --env-file
	JSON   = "json"   // EnvSchema
)

// Syntaxes are the names that Render takes.
func Syntaxes() []string { return []string{Sh, Fish, Pwsh, Cmd, Dotenv, Docker, JSON} }

// EnvSchema names the JSON form.
const EnvSchema = "lane.env/v1"

// UnfitError says that a syntax cannot express a variable. It does not show the
// value, which may be a secret.
type UnfitError struct {
	Syntax string
	Name   string
	Why    string
}

func (e *UnfitError) Error() string {
	return fmt.Sprintf("%s cannot be written as %s: %s", e.Name, e.Syntax, e.Why)
}

// SyntaxError says that there is no such syntax.
type SyntaxError struct{ Given string }

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("no syntax %q; there are %s", e.Given, strings.Join(Syntaxes(), ", "))
}

// Render writes variables so that the reader of the syntax gets each value byte
// for byte. What a syntax cannot express it refuses, with an *UnfitError; then
// nothing is rendered, as half an environment would be worse.
func Render(syntax string, vars []Var) (string, error) {
	line := map[string]func(name, value string) (out, why string){
		Sh: shLine, Fish: fishLine, Pwsh: pwshLine, Cmd: cmdLine, Dotenv: dotenvLine, Docker: dockerLine,
		JSON: func(_, v string) (string, string) { return "", notText(v) },
	}[syntax]
	if line == nil {
		return "", &SyntaxError{syntax}
	}
	var b strings.Builder
	for _, v := range vars {
		out, why := "", badName(v.Name)
		if why == "" && strings.ContainsRune(v.Value, 0) {
			why = "it holds a zero byte, which no environment can"
		}
		if why == "" {
			out, why = line(v.Name, v.Value)
		}
		if why != "" {
			return "", &UnfitError{Syntax: syntax, Name: v.Name, Why: why}
		}
		b.WriteString(out)
	}
	if syntax == JSON {
		return jsonObject(vars)
	}
	return b.String(), nil
}

// badName says why a name is none that every shell can assign to.
func badName(s string) string {
	for i, c := range []byte(s) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return "its name is not made of letters, digits and _"
		}
	}
	if s == "" {
		return "its name is empty"
	}
	return ""
}

func notText(v string) string {
	if !utf8.ValidString(v) {
		return "it is no UTF-8 text"
	}
	return ""
}

// shLine: in single quotes nothing is special but the quote itself.
func shLine(name, v string) (string, string) {
	return "export " + name + "='" + strings.ReplaceAll(v, "'", `'\''`) + "'\n", ""
}

// fishLine: in single quotes \ and ' are special, each behind a \.
func fishLine(name, v string) (string, string) {
	return "set -gx " + name + " '" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(v) + "'\n", ""
}

// pwshLine writes one line of ASCII for each variable: PowerShell decodes what
// a program prints by the console's code page, splits it into lines, and takes
// the typographic quotes for quotes. So everything else than printable ASCII is
// added as [char]N.
func pwshLine(name, v string) (string, string) {
	if v == "" {
		return "", "PowerShell before 7.5 removes a variable that is set to nothing"
	}
	if why := notText(v); why != "" {
		return "", why
	}
	var b strings.Builder
	b.WriteString("$env:" + name + " = '")
	for _, r := range v {
		switch {
		case r == '\'':
			b.WriteString("''")
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		default:
			b.WriteString("'")
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, " + [char]%d", unit)
			}
			b.WriteString(" + '")
		}
	}
	b.WriteString("'\n")
	return b.String(), ""
}

// maxCmd is the longest line of cmd.exe, in characters.
const maxCmd = 8191

// cmdLine: set "NAME=value" takes everything between the first and the last
// quote. While it looks for the end of the command cmd.exe is inside or outside
// of quotes, each quote of the value turns that, and outside it acts on some
// characters unless a caret stands before them. A percent sign is doubled in a
// batch file.
func cmdLine(name, v string) (string, string) {
	switch {
	case v == "":
		return "", "cmd removes a variable that is set to nothing"
	case strings.ContainsAny(v, "\r\n"):
		return "", "it holds a line break"
	case strings.ContainsFunc(v, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }):
		return "", "it holds characters other than printable ASCII, which a batch file has in the console's code page"
	}
	var b strings.Builder
	b.WriteString(`set "` + name + "=")
	quoted := true
	for _, c := range []byte(v) {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '%':
			b.WriteByte('%')
		case !quoted && strings.IndexByte("&|<>^()", c) >= 0:
			b.WriteByte('^')
		}
		b.WriteByte(c)
	}
	b.WriteString("\"\r\n")
	if b.Len() > maxCmd {
		return "", fmt.Sprintf("its line is longer than %d characters", maxCmd)
	}
	return b.String(), ""
}

// dotenvLine: there is no standard. Node's reader, and those that follow the
// same library, take text between single quotes, backquotes or double quotes as
// it is, line breaks too, without any escape but \n in double quotes.
func dotenvLine(name, v string) (string, string) {
	switch {
	case strings.ContainsRune(v, '\r'):
		return "", "it holds a carriage return, which readers drop"
	case strings.HasSuffix(v, `\`):
		return "", "it ends with a backslash, which some readers take for an escape of the quote"
	case notText(v) != "":
		return "", notText(v)
	}
	for _, q := range []string{"'", "`", `"`} {
		// $ is expanded in double quotes by some, \ acts there in all.
		if !strings.Contains(v, q) && (q != `"` || !strings.ContainsAny(v, `\$`)) {
			return name + "=" + q + v + q + "\n", ""
		}
	}
	return "", "it holds all kinds of quotes"
}

// maxDocker is the longest line that docker's reader takes.
const maxDocker = 64 << 10

// dockerLine: everything after = up to the end of the line is the value.
func dockerLine(name, v string) (string, string) {
	switch {
	case strings.ContainsAny(v, "\r\n"):
		return "", "it holds a line break"
	case notText(v) != "":
		return "", notText(v)
	case len(name)+1+len(v) >= maxDocker:
		return "", fmt.Sprintf("its line is longer than %d bytes", maxDocker)
	}
	return name + "=" + v + "\n", ""
}

func jsonObject(vars []Var) (string, error) {
	m := make(map[string]string, len(vars))
	for _, v := range vars {
		m[v.Name] = v.Value
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(struct {
		Schema string            `json:"schema"`
		Env    map[string]string `json:"env"`
	}{EnvSchema, m})
	if err != nil {
		return "", fmt.Errorf("render json: %w", err)
	}
	return b.String(), nil
}
