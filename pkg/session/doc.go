// Package session is one `lane up`: it starts and stops the guards, the coloring
// proxy, the claims, the registrations and the command in one nesting, so that
// whatever happens in between nothing is left behind. It decides no route and
// prints nothing.
//
//	control socket                    opened first, closed last
//	  registry watch
//	    coloring proxy, guards        listen
//	      claim                       who holds the service
//	        registration, beats       routable from here on
//	          command
package session
