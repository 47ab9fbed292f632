package tracemap

import (
	"encoding/base64"
	"fmt"
)

// kind is what an id is made of. Ids of two kinds are never one.
type kind uint8

const (
	kindNone   kind = iota
	kindHex64       // 16 hex digits
	kindHex128      // 32 hex digits
	kindUUID
	kindSky    // SkyWalking's: any text, in text as base64
	kindOpaque // any text
)

// ID is the id of a trace, as a header gives it. Its text is a part of that
// header: what outlives the request has to copy it.
type ID struct {
	kind   kind
	hi, lo uint64
	text   string
}

// String is the id as its tracing system shows it: in lower case and in full.
func (i ID) String() string {
	switch i.kind {
	case kindHex64, kindHex128:
		var room [32]byte
		b := room[:0]
		if i.kind == kindHex128 {
			b = appendHex(b, i.hi)
		}
		return string(appendHex(b, i.lo))
	case kindUUID:
		return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", i.hi>>32, i.hi>>16&0xffff, i.hi&0xffff, i.lo>>48, i.lo&(1<<48-1))
	case kindSky:
		b, _ := base64.StdEncoding.DecodeString(i.text) // was decoded before
		return string(b)
	case kindOpaque:
		return i.text
	}
	return ""
}

// Key is what a trace is found by. Keys are compared whole, there is no hash
// that two ids could share.
type Key struct {
	kind   kind // kindHex128 only where the right half is zero
	hi, lo uint64
	text   string
}

// key is the right-most 16 digits of a hex id: systems of 64 and of 128 bits
// meet in one trace, and the former drop the left half. All other ids count in
// full.
func (i ID) key() Key {
	switch {
	case i.lo != 0 && (i.kind == kindHex64 || i.kind == kindHex128):
		return Key{kind: kindHex64, lo: i.lo}
	default:
		return Key(i)
	}
}

// String is the key in the form of an id.
func (k Key) String() string { return ID(k).String() }

// Keys are the keys of one request, the best source first. Its texts are parts
// of the request's head. The zero value has none.
type Keys struct {
	n     int
	keys  [len(auto)]Key
	first ID
}

// Len is how many keys there are; with none, nothing can be found or kept.
func (k *Keys) Len() int { return k.n }

// At is the i-th key.
func (k *Keys) At(i int) Key { return k.keys[:k.n][i] }

// ID is the id of the best source, for people: the zero ID if there is none.
func (k *Keys) ID() ID { return k.first }

// add keeps an id's key, once: the same id often comes in several headers.
func (k *Keys) add(id ID) {
	if k.n == 0 {
		k.first = id
	}
	key := id.key()
	for i := range k.n {
		if k.keys[i] == key {
			return
		}
	}
	k.keys[k.n] = key
	k.n++
}
