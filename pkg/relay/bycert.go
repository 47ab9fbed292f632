package relay

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"lane/pkg/token"
)

// certID is the beginning of the ID by which a certificate that lets in by itself is
// revoked, and stands in the audit log. No token has such a one: theirs are upper case.
const certID = "cert-"

// ByCertificate reports whether an ID is a certificate's. Nobody knows when that ends by
// it: its revocation stands for ever.
func ByCertificate(id string) bool { return strings.HasPrefix(id, certID) }

// grantOf is what a certificate, which has been verified, allows without a token: its
// common name is the user, and the lanes are those that his token would have unless it
// said others.
func grantOf(c *x509.Certificate) (*token.Grant, error) {
	user := c.Subject.CommonName
	if err := token.CheckUser(user); err != nil {
		return nil, refuse(http.StatusForbidden, "the common name of the certificate is no user's: %v", err)
	}
	lanes := token.LanesOf(user)
	for _, l := range lanes {
		if err := token.CheckLane(l); err != nil {
			return nil, refuse(http.StatusForbidden, "without a token the lanes of %s are %s, which is no lane: %v", user, lanes[0], err)
		}
	}
	sum := sha256.Sum256(c.Raw)
	return &token.Grant{ID: certID + hex.EncodeToString(sum[:16]), User: user, Lanes: lanes, Services: []string{"*"}, Issued: c.NotBefore, Expires: c.NotAfter}, nil
}

// refusal says why a grant does not allow a claim, in the words of what was shown.
func refusal(g *token.Grant, err error) error {
	var no *token.RefusedError
	if ByCertificate(g.ID) && errors.As(err, &no) {
		err = fmt.Errorf("the certificate of %s alone does not allow %s in lane %s: %s", no.User, no.Service, no.Lane, no.Why)
	}
	return refuse(http.StatusForbidden, "%v", err)
}

// shownWord is what a holder has shown: it stands in what he is told of its end.
func shownWord(id string) string {
	if ByCertificate(id) {
		return "certificate"
	}
	return "token"
}
