package lane

// index is a service's instances grouped for decisions, made once.
type index struct{}
