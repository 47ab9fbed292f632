package lane

// HTTP is the status of a response that bears the code; 0 for no error.
func (c Code) HTTP() int {
	switch c {
	case "":
		return 0
	case CodeTagInvalid:
		return 400
	case CodeUpstreamConnect:
		return 502
	case CodeLoopDetected:
		return 508
	}
	return 503
}

// GRPC is the gRPC status number of a response that bears the code; 0 (OK) for
// no error.
func (c Code) GRPC() int {
	const (
		invalidArgument    = 3
		resourceExhausted  = 8
		failedPrecondition = 9
		unavailable        = 14
	)
	switch c {
	case "":
		return 0
	case CodeTagInvalid:
		return invalidArgument
	case CodeZoneCap:
		return resourceExhausted
	case CodeHardConstraint, CodeLoopDetected:
		return failedPrecondition
	}
	return unavailable
}
