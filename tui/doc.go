// Package tui is the terminal UI of a session: the exchanges of a lane as they
// happen, the one that is selected in full, and the state of the session. It
// reads traffic by sequence number at its own pace and owns no engine: it never
// sends a request by itself, touches the registry or delays anybody. What keys ask
// for beside that is done by the Deeds that it was given.
//
//	Source --Batch/Status--> feed --one message per frame, only on a change--> model --View--> terminal
//
// The model is plain values; View is a pure function of it and of the size of
// the screen. All that comes from the wire passes text (text.go) before it is
// drawn, so that no byte of it can act on the terminal, and secrets are masked.
// Nothing is told by colour alone: without colour every mark and word is there.
package tui
