package token

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// audience keeps a token of this kind from being taken for another one that the
// same key has signed.
const audience = "lane-relay"

// leeway is how far two clocks may differ.
const leeway = 30 * time.Second

// maxToken bounds what is parsed at all, in bytes.
const maxToken = 8 << 10

// claims are a grant on the wire: a JSON Web Token (RFC 7519), signed with EdDSA
// (RFC 8037).
type claims struct {
	jwt.RegisteredClaims
	Lanes    []string `json:"lanes"`
	Services []string `json:"services"`
}

// NewID makes the name of a token.
func NewID() string { return rand.Text() }

// Sign makes the token of a grant.
func Sign(key ed25519.PrivateKey, g *Grant) (string, error) {
	if err := g.Check(); err != nil {
		return "", err
	}
	if err := checkID(g.ID); err != nil {
		return "", err
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, &claims{
		RegisteredClaims: jwt.RegisteredClaims{ID: g.ID, Subject: g.User, Audience: jwt.ClaimStrings{audience},
			IssuedAt: jwt.NewNumericDate(g.Issued), ExpiresAt: jwt.NewNumericDate(g.Expires)},
		Lanes: g.Lanes, Services: g.Services,
	})
	t.Header["kid"] = KeyID(key.Public().(ed25519.PublicKey))
	return t.SignedString(key)
}

// InvalidError says why a token is not believed. It holds nothing of the token.
type InvalidError struct {
	Why     string
	Expired bool
}

func (e *InvalidError) Error() string { return "the token is not accepted: " + e.Why }

// Verifier reads tokens that one key has signed.
type Verifier struct {
	key    ed25519.PublicKey
	now    func() time.Time
	parser *jwt.Parser
}

// NewVerifier makes a verifier; now is the clock that it takes for true.
func NewVerifier(key ed25519.PublicKey, now func() time.Time) *Verifier {
	return &Verifier{key: key, now: now, parser: jwt.NewParser(
		// The one method: a token names its own, and must not choose it.
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithAudience(audience), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway), jwt.WithTimeFunc(now), jwt.WithStrictDecoding(),
	)}
}

// Verify returns the grant of a token. The error is an *InvalidError.
func (v *Verifier) Verify(token string) (*Grant, error) {
	if len(token) > maxToken {
		return nil, &InvalidError{Why: fmt.Sprintf("it has %d bytes, and no more than %d are read", len(token), maxToken)}
	}
	var c claims
	_, err := v.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return v.key, nil })
	switch {
	case errors.Is(err, jwt.ErrTokenExpired), err == nil && c.ExpiresAt != nil && !v.now().Before(c.ExpiresAt.Time):
		// Its end is exact: the leeway is for clocks that are behind at its beginning.
		return nil, &InvalidError{Why: "it has expired on " + c.ExpiresAt.UTC().Format(time.RFC3339), Expired: true}
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return nil, &InvalidError{Why: "its signature is not of the key that this relay read at its start"}
	case errors.Is(err, jwt.ErrTokenMalformed):
		return nil, &InvalidError{Why: "it is no whole token"}
	case err != nil:
		return nil, &InvalidError{Why: err.Error()}
	}
	if c.IssuedAt == nil || c.ExpiresAt == nil {
		return nil, &InvalidError{Why: "it does not say when it was made and when it ends"}
	}
	g := &Grant{ID: c.ID, User: c.Subject, Lanes: c.Lanes, Services: c.Services, Issued: c.IssuedAt.Time, Expires: c.ExpiresAt.Time}
	if err := errors.Join(checkID(g.ID), g.Check()); err != nil {
		return nil, &InvalidError{Why: err.Error()}
	}
	return g, nil
}

// Ends is when a token says that it ends; false for what says nothing of it. It verifies
// nothing: it is for who holds the token, and not for who is shown it.
func Ends(token string) (time.Time, bool) {
	if len(token) > maxToken {
		return time.Time{}, false
	}
	var c claims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &c); err != nil || c.ExpiresAt == nil {
		return time.Time{}, false
	}
	return c.ExpiresAt.Time, true
}

// Look is what a token says. It verifies nothing: it is for who holds the token, and not
// for who is shown it. False is for what is no token.
func Look(token string) (Grant, bool) {
	if len(token) > maxToken {
		return Grant{}, false
	}
	var c claims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &c); err != nil || c.ExpiresAt == nil || c.IssuedAt == nil {
		return Grant{}, false
	}
	return Grant{ID: c.ID, User: c.Subject, Lanes: c.Lanes, Services: c.Services, Issued: c.IssuedAt.Time, Expires: c.ExpiresAt.Time}, true
}

// checkID holds the name of a token to what it can be: it becomes a key in the
// registry.
func checkID(id string) error {
	ok := len(id) >= 8 && len(id) <= 64
	for i := 0; ok && i < len(id); i++ {
		c := id[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
	}
	if !ok {
		return &PatternError{"token", id, "is no ID of a token: 8 to 64 letters, digits and hyphens"}
	}
	return nil
}

// CheckID returns a *PatternError for what is no ID of a token.
func CheckID(id string) error { return checkID(id) }

// KeyID names a key: the beginning of its SHA-256.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}
