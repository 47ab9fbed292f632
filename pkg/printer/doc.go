// Package printer turns domain values into what a person or a program reads:
// aligned tables with color on a terminal, tab-separated lines without a header
// off it, and JSON with a named schema. It never decides, asks or looks anything
// up, and no byte that came over the wire reaches a terminal through it raw.
package printer
