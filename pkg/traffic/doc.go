// Package traffic records exchanges: a bounded ring that a request writes into
// without ever waiting, and that readers follow at their own pace. It also has
// what every reader shares: the words for a route and its reason, the filter
// language, and the masks for secrets. It never sends or decides anything, and
// draws nothing.
package traffic
