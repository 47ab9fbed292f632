// Package traffic records exchanges: a bounded ring that a request writes into
// without ever waiting, and that readers follow at their own pace. It never
// sends, decides or formats anything.
package traffic
