// Package taskserver is the client of a task server: the routes of section 10.1 of the Nutshell specification, as a
// ClawNet daemon has them. A customer publishes a task there with the hash of its bundle, providers bid, one is
// assigned, gets the bundle and submits a delivery, and the customer approves it.
//
//	POST /api/tasks                 make a task
//	GET  /api/tasks?status=open     list tasks
//	GET  /api/tasks/{id}            one task
//	POST /api/tasks/{id}/bundle     upload, multipart field "bundle"
//	GET  /api/tasks/{id}/bundle     download
//	POST /api/tasks/{id}/bid        bid
//	GET  /api/tasks/{id}/bids       list bids
//	POST /api/tasks/{id}/assign     choose who does it
//	POST /api/tasks/{id}/claim      take it without bidding
//	POST /api/tasks/{id}/submit     hand the work in
//	POST /api/tasks/{id}/approve    accept it, which pays the reward
//	GET  /api/status                who the server takes us for
//
// The server is not trusted. Answers are bounded in bytes and time, ids from it are checked before they become part
// of a path, a bundle is streamed and compared with the hash that it should have, and redirects lead to no other
// host. Nothing is logged, and no error holds the token. The package keeps no state and writes no file.
package taskserver
