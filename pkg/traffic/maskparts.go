package traffic

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/quotedprintable"
	"regexp"
	"strings"
	"sync"
)

// firstDelimiter finds the line before a multipart body's first part (RFC 2046, 5.1.1):
// a header follows it.
var firstDelimiter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:\A|\n)(--[^\r\n]{1,200}?)[ \t]*\r?\n(?i:content-[a-z-]+[ \t]*:)`)
})

// delimiter is the line between the parts of a multipart body; nil if it is none. What
// says that it is multipart may have a text before it; in anything else it comes first.
func delimiter(b []byte, says bool) []byte {
	if !bytes.Contains(b, []byte("--")) {
		return nil
	}
	m := firstDelimiter().FindSubmatchIndex(b)
	if m == nil || !says && len(bytes.TrimLeft(b[:m[2]], "\r\n")) > 0 {
		return nil
	}
	return b[m[2]:m[3]]
}

// maskParts masks the parts of a multipart body whose names are secret, and those
// whose content has secrets. A part whose name cannot be read is masked.
func maskParts(delim, b []byte, depth int) []byte {
	var out, content bytes.Buffer
	inHead, head, part := false, "", false
	flush := func() {
		if !part {
			out.Write(maskBody(BodyText, content.Bytes(), depth+1))
		} else {
			c := content.Bytes()
			body := bytes.TrimRight(c, "\r\n")
			out.Write(maskPart(head, body, depth))
			out.Write(c[len(body):])
		}
		content.Reset()
	}
	for line := range bytes.Lines(b) {
		bare := bytes.TrimRight(line, " \t\r\n")
		rest, is := bytes.CutPrefix(bare, delim)
		switch {
		case is && (len(rest) == 0 || string(rest) == "--"):
			flush()
			out.Write(line)
			inHead, head, part = len(rest) == 0, "", false
		case inHead && len(bytes.TrimRight(line, "\r\n")) == 0:
			out.Write(line)
			inHead, part = false, true
		case inHead:
			out.Write(line)
			head += string(line)
		default:
			content.Write(line)
		}
	}
	flush()
	return out.Bytes()
}

func maskPart(head string, body []byte, depth int) []byte {
	if len(body) == 0 {
		return body
	}
	var media, coding string
	unfold := strings.NewReplacer("\r\n ", " ", "\r\n\t", " ", "\n ", " ", "\n\t", " ")
	for line := range strings.Lines(unfold.Replace(head)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); strings.ToLower(strings.TrimSpace(name)) {
		case "content-disposition":
			_, params, err := mime.ParseMediaType(value)
			if err != nil || secretName(unescaped(params["name"])) {
				return []byte(Masked)
			}
		case "content-type":
			media = value
		case "content-transfer-encoding":
			coding = strings.ToLower(value)
		}
	}
	inner := func(b []byte) []byte {
		kind := KindOf(media, "", b)
		if kind == BodyBinary && !isFile(media) {
			kind = BodyText // in another charset, or with a stray byte
		}
		if kind == BodyBinary {
			return b
		}
		return maskBody(kind, b, depth+1)
	}
	switch coding {
	case "", "7bit", "8bit", "binary":
		return inner(body)
	case "base64":
		return maskBase64(body, inner)
	case "quoted-printable":
		return maskQuotedPrintable(body, inner)
	}
	return []byte(Masked) // what it says cannot be read
}

// maskBase64 masks what base64 holds; all of it, if it holds none.
func maskBase64(body []byte, mask func([]byte) []byte) []byte {
	bare := bytes.Join(bytes.Fields(body), nil)
	plain := make([]byte, base64.StdEncoding.DecodedLen(len(bare)))
	n, err := base64.StdEncoding.Decode(plain, bare[:len(bare)-len(bare)%4]) // it may have been cut
	if err != nil {
		return []byte(Masked)
	}
	masked := mask(plain[:n])
	if bytes.Equal(masked, plain[:n]) {
		return body
	}
	out := base64.StdEncoding.EncodeToString(masked)
	const line = 76 // RFC 2045, 6.8
	var b bytes.Buffer
	for len(out) > line {
		b.WriteString(out[:line] + "\r\n")
		out = out[line:]
	}
	b.WriteString(out)
	return b.Bytes()
}

// maskQuotedPrintable is the same for quoted-printable.
func maskQuotedPrintable(body []byte, mask func([]byte) []byte) []byte {
	plain, err := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(body)))
	if err != nil {
		return []byte(Masked)
	}
	masked := mask(plain)
	if bytes.Equal(masked, plain) {
		return body
	}
	var b bytes.Buffer
	w := quotedprintable.NewWriter(&b)
	if _, err := w.Write(masked); err != nil || w.Close() != nil {
		return []byte(Masked)
	}
	return b.Bytes()
}
