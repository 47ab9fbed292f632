package childenv

import "cmp"

// Variables by which programs find the roots that they verify servers with.
const (
	SSLVar      = "SSL_CERT_FILE"       // OpenSSL, Python, Ruby; Go on Linux
	RequestsVar = "REQUESTS_CA_BUNDLE"  // Python's requests
	CurlVar     = "CURL_CA_BUNDLE"      // curl, and requests
	NodeVar     = "NODE_EXTRA_CA_CERTS" // Node: beside its own roots
)

// RootsVar is a variable that names a file of roots, and the file that a program
// would read now.
type RootsVar struct {
	Name string
	// File is the user's own choice; empty: the program's own roots.
	File string
	// Extra says that the file's roots come beside the program's own, not in their
	// place.
	Extra bool
}

// RootsOf are the variables that name roots, with what an environment says. The
// first three replace a program's roots: a file that is put there has to hold
// those that were there before, or no other host could be reached.
func RootsOf(base []string, windows bool) []RootsVar {
	get := lookup(base, windows)
	ssl, curl := get(SSLVar), get(CurlVar)
	return []RootsVar{
		{Name: SSLVar, File: ssl},
		{Name: RequestsVar, File: cmp.Or(get(RequestsVar), curl)},
		{Name: CurlVar, File: cmp.Or(curl, ssl)},
		{Name: NodeVar, File: get(NodeVar), Extra: true},
	}
}
