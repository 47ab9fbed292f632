// Package iostreams holds the three standard streams and the facts about the
// terminal behind them: whether there is one, how wide it is, whether color is
// wanted. Printers ask it; nobody else asks the terminal. It never writes
// anything by itself.
package iostreams
