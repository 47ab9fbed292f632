package metrics

import "strconv"

// The codes that are told apart: those that HTTP registers. Any other one counts
// under its class, because a server may send what it likes.
const (
	codeNone  = 0 // no answer came
	codeClass = 1 // 1xx to 5xx: codeClass to codeClass+4
	codeFirst = 6
)

var codes = [...]int{
	100, 101, 102, 103,
	200, 201, 202, 203, 204, 205, 206, 207, 208, 226,
	300, 301, 302, 303, 304, 305, 307, 308,
	400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 499,
	500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511,
}

const nCodes = codeFirst + len(codes)

// place[status] is the place of a status, 0 for one that is not registered.
var place = func() (out [600]uint8) {
	for i, c := range codes {
		out[c] = uint8(codeFirst + i)
	}
	return out
}()

func codeOf(status int) int {
	switch {
	case status < 100 || status > 599:
		return codeNone
	case place[status] > 0:
		return int(place[status])
	}
	return codeClass + status/100 - 1
}

func codeText(i int) string {
	switch {
	case i == codeNone:
		return NoCode
	case i < codeFirst:
		return strconv.Itoa(i-codeClass+1) + "xx"
	}
	return strconv.Itoa(codes[i-codeFirst])
}
