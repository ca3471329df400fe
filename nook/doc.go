// Package nook defines the Nook protocol: activity events of agents, and what follows from them.
//
// Parse checks an event, and Event.Received completes it with the time of its arrival.
package nook
