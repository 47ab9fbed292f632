package token_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"lane/pkg/token"
)

var epoch = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func alice() *token.Grant {
	return &token.Grant{ID: "ABCDEFGH2345", User: "alice", Lanes: []string{"dev-alice", "dev-alice-*"},
		Services: []string{"orders", "shop-*"}, Issued: epoch, Expires: epoch.Add(12 * time.Hour)}
}

func TestAllow(t *testing.T) {
	all := alice()
	all.Services = []string{"*"}
	for _, c := range []struct {
		name                string
		g                   *token.Grant
		user, lane, service string
		want                bool
	}{
		{"her own", alice(), "alice", "dev-alice", "orders", true},
		{"her own, whoever she is", alice(), "", "dev-alice", "orders", true},
		{"one below", alice(), "", "dev-alice-2", "orders", true},
		{"a service by its beginning", alice(), "", "dev-alice", "shop-cart", true},
		{"every service", all, "", "dev-alice", "payment", true},
		{"another lane", alice(), "", "dev-bob", "orders", false},
		{"a lane that begins alike", alice(), "", "dev-alicent", "orders", false},
		{"a lane with nothing behind the hyphen", alice(), "", "dev-alice-", "orders", false},
		{"another service", alice(), "", "dev-alice", "payment", false},
		{"the beginning of a service alone", alice(), "", "dev-alice", "shop", false},
		{"another user", alice(), "bob", "dev-alice", "orders", false},
		{"no lane", alice(), "", "", "orders", false},
		{"no service", alice(), "", "dev-alice", "", false},
		{"a pattern for a lane", alice(), "", "dev-alice-*", "orders", false},
		{"a service that is a way", all, "", "dev-alice", "../orders", false},
		{"letters of the other case", alice(), "", "DEV-ALICE", "orders", false},
		{"every lane, which no token may say", &token.Grant{User: "alice", Lanes: []string{"*"}, Services: []string{"*"}}, "", "dev-bob", "orders", false},
		{"nobody's", &token.Grant{Lanes: []string{"dev-alice"}, Services: []string{"*"}}, "", "dev-alice", "orders", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.g.Allow(c.user, c.lane, c.service)
			var refused *token.RefusedError
			if (err == nil) != c.want || err != nil && !errors.As(err, &refused) {
				t.Errorf("Allow = %v, want allowed: %v", err, c.want)
			}
		})
	}
}

func TestWhatATokenCanSay(t *testing.T) {
	for name, spoil := range map[string]func(*token.Grant){
		"no user":                func(g *token.Grant) { g.User = "" },
		"a user with a space":    func(g *token.Grant) { g.User = "alice b" },
		"no lanes":               func(g *token.Grant) { g.Lanes = nil },
		"every lane":             func(g *token.Grant) { g.Lanes = []string{"*"} },
		"a bare beginning":       func(g *token.Grant) { g.Lanes = []string{"dev-al*"} },
		"a lane in capitals":     func(g *token.Grant) { g.Lanes = []string{"Dev"} },
		"no services":            func(g *token.Grant) { g.Services = nil },
		"a service with a slash": func(g *token.Grant) { g.Services = []string{"a/b"} },
		"it ends before":         func(g *token.Grant) { g.Expires = g.Issued },
		"it lives too long":      func(g *token.Grant) { g.Expires = g.Issued.Add(token.MaxTTL + time.Second) },
		"an ID that is a way":    func(g *token.Grant) { g.ID = "../../switches/x" },
	} {
		t.Run(name, func(t *testing.T) {
			key := (token.Keeper{Dir: t.TempDir()})
			private, err := key.Key()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := token.Sign(private, alice()); err != nil {
				t.Fatal("unspoiled: ", err)
			}
			g := alice()
			spoil(g)
			var bad *token.PatternError
			if _, err := token.Sign(private, g); !errors.As(err, &bad) {
				t.Errorf("Sign = %v", err)
			}
		})
	}
}

// sign signs any claims with any method, as whoever has made a token by himself.
func sign(t *testing.T, method jwt.SigningMethod, key any, c jwt.MapClaims) string {
	t.Helper()
	text, err := jwt.NewWithClaims(method, c).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestVerify(t *testing.T) {
	private, err := (token.Keeper{Dir: t.TempDir()}).Key()
	if err != nil {
		t.Fatal(err)
	}
	other, err := (token.Keeper{Dir: t.TempDir()}).Key()
	if err != nil {
		t.Fatal(err)
	}
	public := private.Public().(ed25519.PublicKey)
	good, err := token.Sign(private, alice())
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	raw := func(change func(jwt.MapClaims)) jwt.MapClaims {
		c := jwt.MapClaims{"sub": "alice", "aud": "lane-relay", "jti": "ABCDEFGH2345", "lanes": []string{"dev-alice"}, "services": []string{"*"},
			"iat": epoch.Unix(), "exp": epoch.Add(time.Hour).Unix()}
		change(c)
		return c
	}
	bobs := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(decode(t, parts[1]), `"alice"`, `"bob"`, 1)))
	foreign, err := token.Sign(other, alice())
	if err != nil {
		t.Fatal(err)
	}
	ed := jwt.SigningMethodEdDSA
	for _, c := range []struct {
		name, text, why string
		at              time.Duration
	}{
		{"good", good, "", time.Minute},
		{"good until its end", good, "", 12*time.Hour - time.Second},
		{"made by somebody else's program", sign(t, ed, private, raw(func(jwt.MapClaims) {})), "", time.Minute},
		{"expired", good, "expired", 13 * time.Hour},
		{"just expired", good, "expired", 12 * time.Hour},
		{"from the future", good, "", -time.Second}, // within the leeway
		{"from the far future", good, "issued", -time.Hour},
		{"another key", foreign, "signature", time.Minute},
		{"another user's name in it", parts[0] + "." + bobs + "." + parts[2], "signature", time.Minute},
		{"cut", good[:len(good)-4], "", time.Minute},
		{"cut to two parts", parts[0] + "." + parts[1], "whole", time.Minute},
		{"cut to its first half", good[:len(good)/2], "whole", time.Minute},
		{"no signature", parts[0] + "." + parts[1] + ".", "signature", time.Minute},
		{"none", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, raw(func(jwt.MapClaims) {})), "signature", time.Minute},
		{"the public key as a secret", sign(t, jwt.SigningMethodHS256, []byte(public), raw(func(jwt.MapClaims) {})), "signature", time.Minute},
		{"another audience", sign(t, ed, private, raw(func(c jwt.MapClaims) { c["aud"] = "shop" })), "audience", time.Minute},
		{"no audience", sign(t, ed, private, raw(func(c jwt.MapClaims) { delete(c, "aud") })), "aud", time.Minute},
		{"no end", sign(t, ed, private, raw(func(c jwt.MapClaims) { delete(c, "exp") })), "exp", time.Minute},
		{"no beginning", sign(t, ed, private, raw(func(c jwt.MapClaims) { delete(c, "iat") })), "when it was made", time.Minute},
		{"a long life", sign(t, ed, private, raw(func(c jwt.MapClaims) { c["exp"] = epoch.Add(1000 * time.Hour).Unix() })), "lifetime", time.Minute},
		{"no ID", sign(t, ed, private, raw(func(c jwt.MapClaims) { delete(c, "jti") })), "no ID", time.Minute},
		{"every lane", sign(t, ed, private, raw(func(c jwt.MapClaims) { c["lanes"] = []string{"*"} })), "everybody", time.Minute},
		{"nothing", "", "whole", time.Minute},
		{"much", strings.Repeat("a", 9000), "bytes", time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := token.NewVerifier(public, func() time.Time { return epoch.Add(c.at) })
			g, err := v.Verify(c.text)
			if c.name == "cut" {
				c.why = "not accepted" // where it is cut says what is wrong with it
			}
			if c.why == "" {
				if err != nil || g.User != "alice" || g.ID != "ABCDEFGH2345" || g.Allow("", "dev-alice", "orders") != nil {
					t.Errorf("Verify = %+v, %v", g, err)
				}
				return
			}
			var bad *token.InvalidError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.why) || bad.Expired != strings.HasSuffix(c.name, "expired") {
				t.Errorf("Verify = %+v, %v; want %q", g, err, c.why)
			}
			if err != nil && len(c.text) > 0 && strings.Contains(err.Error(), c.text) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func decode(t *testing.T, part string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheKeyIsItsUsersAlone(t *testing.T) {
	k := token.Keeper{Dir: filepath.Join(t.TempDir(), "relay")}
	if _, err := token.ReadPublic(k.PublicPath()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before there is one: %v", err)
	}
	// Two that make it at once have one.
	keys := make([]ed25519.PrivateKey, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			key, err := k.Key()
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	all.Wait()
	for _, key := range keys[1:] {
		if !key.Equal(keys[0]) {
			t.Fatal("two keys")
		}
	}
	info, err := os.Stat(k.KeyPath())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	public, err := token.ReadPublic(k.PublicPath())
	if err != nil || !public.Equal(keys[0].Public()) {
		t.Errorf("the public key: %v", err)
	}
	if _, err := token.ReadPublic(k.KeyPath()); err == nil || !strings.Contains(err.Error(), "public one alone") {
		t.Errorf("a relay reads a private key: %v", err)
	}
	if err := os.Chmod(k.KeyPath(), 0o640); err != nil {
		t.Fatal(err)
	}
	var open *token.OpenError
	if _, err := k.Key(); !errors.As(err, &open) {
		t.Errorf("a key that others can read: %v", err)
	}
	for _, mode := range []fs.FileMode{0o755, 0o700} { // never to be made tighter: others need it
		dir := filepath.Join(t.TempDir(), "dir")
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := token.Read(dir); err == nil || errors.As(err, &open) || !strings.Contains(err.Error(), "is a directory") {
			t.Errorf("a directory: %v", err)
		}
	}
}

func TestATokensFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, c := range []struct {
		name, text string
		mode       fs.FileMode
		want       string
	}{
		{"good", "abc.def.ghi\n", 0o600, ""},
		{"read only", "abc.def.ghi", 0o400, ""},
		{"the group reads", "abc.def.ghi", 0o640, "read by others"},
		{"all read", "abc.def.ghi", 0o604, "read by others"},
		{"empty", "\n", 0o600, "no token"},
		{"two lines", "abc\ndef\n", 0o600, "no token"},
		{"a line end of Windows", "abc.def.ghi\r\n", 0o600, ""},
		{"a control character", "abc.\x01def", 0o600, "no token"},
		{"no character of a token's", "abc.d\u00e9f", 0o600, "no token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_ = os.Remove(path)
			if err := errors.Join(os.WriteFile(path, []byte(c.text), 0o600), os.Chmod(path, c.mode)); err != nil {
				t.Fatal(err)
			}
			got, err := token.Read(path)
			if c.want == "" && (err != nil || got != "abc.def.ghi") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Read = %q, %v", got, err)
			}
		})
	}
}

func TestTheListHoldsNoToken(t *testing.T) {
	k := token.Keeper{Dir: t.TempDir()}
	private, err := k.Key()
	if err != nil {
		t.Fatal(err)
	}
	old, now := *alice(), *alice()
	old.ID, old.Issued, old.Expires = "OLDOLDOLD", epoch.Add(-100*time.Hour), epoch.Add(-90*time.Hour)
	text, err := token.Sign(private, &now)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []token.Grant{old, now} {
		if err := k.Note(g); err != nil {
			t.Fatal(err)
		}
	}
	all, err := k.Issued()
	if err != nil || len(all) != 1 || all[0].ID != now.ID || all[0].User != "alice" {
		t.Errorf("Issued = %+v, %v", all, err)
	}
	files, err := filepath.Glob(filepath.Join(k.Dir, "*"))
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || strings.Contains(string(b), text[strings.LastIndexByte(text, '.')+1:]) {
			t.Errorf("%s holds the token (%v)", f, err)
		}
	}
}

// A holder reads when the own token ends, whoever has signed it, and nothing of what is
// none.
func TestEnds(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if got, ok := token.Ends(sign(t, jwt.SigningMethodEdDSA, key, jwt.MapClaims{"exp": end.Unix()})); !ok || !got.Equal(end) {
		t.Errorf("%v %v", got, ok)
	}
	for name, text := range map[string]string{"nothing": "", "no token": "a.b.c", "no end": sign(t, jwt.SigningMethodEdDSA, key, jwt.MapClaims{"sub": "alice"}), "too long": strings.Repeat("a", 9<<10)} {
		if got, ok := token.Ends(text); ok {
			t.Errorf("%s ends at %v", name, got)
		}
	}
}
