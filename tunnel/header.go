package tunnel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// version is the version of headers and messages.
const version = 1

// Limits of what the other end may say, in bytes.
const (
	maxHeader  = 4 << 10
	maxMessage = 1<<16 - 1
	maxName    = 128
	maxNote    = 200
	maxFacts   = 64
	factBytes  = 8 << 10
)

// Kind is what a claim's streams carry.
type Kind string

// The kinds of streams: HTTP, which guards stand before, and plain TCP.
const (
	HTTP Kind = "http"
	TCP  Kind = "tcp"
)

// Claim is a service in a lane, as an agent wants to hold it. The tunnel reads
// all but Facts, which are for the programs at the two ends: 64 of them at most,
// 8 KiB in all.
type Claim struct {
	ID       string `json:"id"` // of the agent's choice: letters, digits, '.', '_', '-', 128 at most
	Lane     string `json:"lane"`
	Service  string `json:"service"`
	Kind     Kind   `json:"kind"`
	Takeover bool   `json:"takeover,omitempty"` // from the same user's other machine too
	// Join has it stand beside whoever holds the service in the lane. Each install
	// has one place beside; what it means is the Authority's to decide.
	Join bool `json:"join,omitempty"`
	// End has it given up, and nothing claimed: by whoever comes after the agent that
	// has it, which has died, and knows its ID; or, with Takeover, after an agent of the
	// same install, whose link is lost. Nobody having it is no error.
	End   bool              `json:"end,omitempty"`
	Facts map[string]string `json:"facts,omitempty"`
}

// State is what an agent says about the process behind a claim.
type State struct {
	Ready    bool   `json:"ready"`    // its port answers
	Draining bool   `json:"draining"` // it wants no new requests
	Note     string `json:"note"`     // for people, 200 bytes at most
}

// Header is the beginning of a stream towards the laptop: two bytes of length,
// then JSON of 4 KiB at most. It names a claim. There is no field for an address,
// and a header with a field of another name is refused.
type Header struct {
	Version  int    `json:"v"`                  // set by Dial
	Claim    string `json:"claim"`              // set by Dial
	Kind     Kind   `json:"kind"`               // set by Dial
	Request  string `json:"request,omitempty"`  // an id, to find the request again
	Color    string `json:"color,omitempty"`    // its tag
	Deadline int64  `json:"deadline,omitempty"` // milliseconds for which the caller still waits; 0: nobody knows

	Small  bool   `json:"-"` // Dial: over the connection for small and urgent things
	Beside string `json:"-"` // Dial: to the install that stands beside the holder; "": to the holder
}

// Out is the beginning of a stream from the laptop, in the same form. It names a
// service; which address that is, the relay's Authority knows.
type Out struct {
	Version int               `json:"v"` // set by DialOut
	Service string            `json:"service"`
	Lane    string            `json:"lane,omitempty"` // "": the baseline
	Facts   map[string]string `json:"facts,omitempty"`
}

func name(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	}) < 0
}

// text reports whether s is a line of printable text.
func text(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}

func checkFacts(facts map[string]string) error {
	n := 0
	for k, v := range facts {
		if n += len(k) + len(v); !name(k) || !text(v, factBytes) || n > factBytes || len(facts) > maxFacts {
			return fmt.Errorf("facts: %d of them, want at most %d with plain names and texts, %d bytes in all", len(facts), maxFacts, factBytes)
		}
	}
	return nil
}

func (c *Claim) check() error {
	switch {
	case !name(c.ID):
		return fmt.Errorf("claim: %q is no id", c.ID)
	case !name(c.Lane):
		return fmt.Errorf("claim: %q is no lane", c.Lane)
	case !name(c.Service):
		return fmt.Errorf("claim: %q is no service", c.Service)
	case c.Kind != HTTP && c.Kind != TCP:
		return fmt.Errorf("claim: %q is no kind of stream", c.Kind)
	case c.Join && c.Kind != HTTP:
		return errors.New("claim: plain TCP has one end, and nobody stands beside it")
	}
	return checkFacts(c.Facts)
}

func (h *Header) check() error {
	switch {
	case h.Version != version:
		return fmt.Errorf("stream header of version %d, this is %d", h.Version, version)
	case !name(h.Claim):
		return fmt.Errorf("stream header: %q is no claim", h.Claim)
	case h.Kind != HTTP && h.Kind != TCP:
		return fmt.Errorf("stream header: %q is no kind of stream", h.Kind)
	case !text(h.Request, maxName):
		return fmt.Errorf("stream header: %q is no request id", h.Request)
	case !text(h.Color, maxName):
		return fmt.Errorf("stream header: %q is no tag", h.Color)
	case h.Deadline < 0:
		return fmt.Errorf("stream header: a deadline of %d ms", h.Deadline)
	}
	return nil
}

func (o *Out) check() error {
	switch {
	case o.Version != version:
		return fmt.Errorf("stream header of version %d, this is %d", o.Version, version)
	case !name(o.Service):
		return fmt.Errorf("stream header: %q is no service", o.Service)
	case o.Lane != "" && !name(o.Lane):
		return fmt.Errorf("stream header: %q is no lane", o.Lane)
	}
	return checkFacts(o.Facts)
}

// strict decodes one JSON object. Fields that into does not have are an error: an
// address in a header must not be taken for something that did not matter.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if len(bytes.TrimLeft(b[d.InputOffset():], " \t\r\n")) > 0 {
		return fmt.Errorf("%d bytes after its end", len(b)-int(d.InputOffset()))
	}
	return nil
}

// frame is v as JSON behind its length.
func frame(v any, most int) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) > most {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(b), most)
	}
	return slices.Concat(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b), nil
}

// readFrame reads no byte beyond the frame's end. It is for what an agent asks for, and for
// the header that leads a stream to a claim: there a field that is not known could mean
// everything.
func readFrame(r io.Reader, most int, into any) error {
	b, err := readBytes(r, most)
	if err != nil {
		return err
	}
	return strict(b, into)
}

// readOpen is readFrame for what a relay answers: a newer one may have more to say, and
// what it says nothing is dialled by.
func readOpen(r io.Reader, most int, into any) error {
	b, err := readBytes(r, most)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

func readBytes(r io.Reader, most int) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(size[:]))
	if n > most {
		return nil, fmt.Errorf("a frame of %d bytes, want at most %d", n, most)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("a frame of %d bytes: %w", n, err)
	}
	return b, nil
}
